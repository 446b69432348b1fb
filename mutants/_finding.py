"""Mistakes in finding people and in bringing the models for it (301-306)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_NPM = "tests/store/test_store_npm.py"
_PEOPLE = "tests/people/detect/test_person_detectors.py"
_GRAPHS = "tests/people/detect/test_graph_models.py"

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
                "people/detect/_tfjs.py",
                'values * np.float32(packed["scale"]) + np.float32(packed["min"])',
                'values * np.float32(packed["scale"])',
            ),
        ),
        (f"{_GRAPHS}::test_weights_are_widened_and_never_changed",),
    ),
)
