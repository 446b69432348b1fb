"""Video data sets in their published layouts, in miniature: labels, owners, splits, what is counted."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato import data
from sfumato.data import Records, RecordsError, Sampling


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (None, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        (Sampling(4), [1, 4, 7, 10]),
        (Sampling(3, stride=2), [3, 5, 7]),
        (Sampling(24), [i // 2 for i in range(24)]),
        (Sampling(4, stride=6), [0, 6, 11, 11]),
    ],
)
def test_sampling_keeps_the_frames_it_says(
    tmp_path, write_video, frame_numbers, sampling, expected
):
    path = write_video(tmp_path / "a.mp4", frames=12)
    x, places = data.sampled_frames(path, sampling)
    assert x.dtype == np.uint8
    assert frame_numbers(x) == expected
    assert places is None or places.tolist() == expected


def test_sampling_that_keeps_nothing_is_refused():
    with pytest.raises(RecordsError, match="at least one frame"):
        Sampling(0)
    with pytest.raises(RecordsError, match="stride"):
        Sampling(2, stride=0)


@pytest.fixture
def ucf(tmp_path, write_video):
    lists = tmp_path / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 Archery\n2 Basketball\n")
    names = [
        "Archery/v_Archery_g01_c01.avi",
        "Archery/v_Archery_g02_c01.avi",
        "Basketball/v_Basketball_g01_c03.avi",
    ]
    for name in names:
        write_video(tmp_path / "UCF-101" / name)
    (lists / "trainlist01.txt").write_text(
        f"{names[0]} 1\n{names[2]} 2\nArchery/v_Archery_g09_c01.avi 1\nGolf/v_Golf_g01_c01.avi 3\n"
    )
    (lists / "testlist01.txt").write_text(f"{names[1]}\n")
    return tmp_path


def test_ucf101_takes_labels_from_its_lists_and_owners_from_groups(ucf, frame_numbers):
    train = data.ucf101(ucf, sampling=Sampling(2))
    assert isinstance(train, Records)
    assert train.classes == ("Archery", "Basketball")
    assert [(r.y, r.owners) for r in train] == [(0, ("Archery_g01",)), (1, ("Basketball_g01",))]
    assert train.owners == [r.owners for r in train]
    assert train[0].x.shape == (2, 24, 32, 3)
    assert frame_numbers(train[0].x) == [1, 4]
    assert sorted(train.problems.counts.values()) == [1, 1]  # a missing file and an unknown class
    assert [r.owners for r in data.ucf101(ucf, "test")] == [("Archery_g02",)]
    for wrong in ({"part": "all"}, {"split": 4}):
        with pytest.raises(RecordsError, match="one of"):
            data.ucf101(ucf, **wrong)
    with pytest.raises(RecordsError, match=r"testlist02\.txt"):
        data.ucf101(ucf, "test", 2)


def test_hmdb51_reads_the_use_of_each_video_from_its_split(tmp_path, write_video):
    lists = tmp_path / "testTrainMulti_7030_splits"
    lists.mkdir()
    for name in ("kick", "wave"):
        rows = []
        for i, use in enumerate((1, 2, 0)):
            file = f"M_{name}_f_cm_np{i + 1}_ba_bad_{i}.avi"
            write_video(tmp_path / "videos" / name / file)
            rows.append(f"{file} {use} ")
        rows += ["gone.avi 1", "odd.avi 7"]
        (lists / f"{name}_test_split1.txt").write_text("\n".join(rows))
    train, test = data.hmdb51(tmp_path), data.hmdb51(tmp_path, "test")
    assert [(r.y, r.attributes["people"]) for r in train] == [(0, 1), (1, 1)]
    assert [(r.y, r.attributes["people"]) for r in test] == [(0, 2), (1, 2)]
    assert train.classes == ("kick", "wave")
    assert train[0].owners == ()
    assert len(train.problems) == 4  # two files gone, two odd uses


def test_ntu_splits_by_person_camera_and_setup(tmp_path, write_video):
    names = {
        "S001C001P001R001A001",  # person 1 trains, camera 1 tests
        "S001C002P003R002A060",  # person 3 tests, camera 2 trains
        "S002C003P045R001A061",  # only in the 120 actions; person 45 trains there; even setup
        "S003C001P106R001A120",
    }
    for name in names:
        write_video(tmp_path / "nturgb+d_rgb" / f"{name}_rgb.avi", frames=2)
    write_video(tmp_path / "holiday.avi", frames=2)

    def seen(**settings):
        return [(r.owners[0], r.y) for r in data.ntu_rgbd(tmp_path, **settings)]

    assert seen() == [("P001", 0)]
    assert seen(part="test") == [("P003", 59)]
    assert seen(protocol="view") == [("P003", 59)]
    assert seen(protocol="view", part="test") == [("P001", 0)]
    assert seen(actions=120) == [("P001", 0), ("P045", 60)]
    assert seen(actions=120, protocol="setup") == [("P045", 60)]
    counted = data.ntu_rgbd(tmp_path).problems
    assert "S001C001P001R001A001_rgb.avi" in str(counted)
    assert len(counted) == 3  # one foreign name, two actions beyond 60
    with pytest.raises(RecordsError, match="subject, setup"):
        data.ntu_rgbd(tmp_path, protocol="view", actions=120)


def test_published_cross_subject_lists_have_their_published_sizes():
    from sfumato.data import _action_lists as lists

    assert len(lists._NTU60_TRAIN) == 20
    assert len(lists._NTU120_TRAIN) == 53
    assert len(lists._TOYOTA_TRAIN) == 11


def test_toyota_smarthome_names_its_people(tmp_path, write_video):
    for name in ("Walk_p03_r00_v01_c01", "Cook.Cut_p02_r00_v02_c02", "Walk_p04_r01_v03_c05"):
        write_video(tmp_path / "mp4" / f"{name}.mp4", frames=2)
    train = data.toyota_smarthome(tmp_path)
    assert train.classes == ("Cook.Cut", "Walk")
    assert [(r.owners, r.y) for r in train] == [(("p03",), 1), (("p04",), 1)]
    assert [r.owners for r in data.toyota_smarthome(tmp_path, "test")] == [("p02",)]
    assert [r.owners for r in data.toyota_smarthome(tmp_path, "train", "CV1")] == [("p03",)]


def test_toyota_smarthomes_cross_view_protocols_know_19_activities(tmp_path, write_video):
    for name in (
        *("Walk_p03_r00_v01_c01", "Cook.Cut_p02_r00_v02_c01"),
        *("Drink.Fromcup_p02_r00_v02_c02", "WatchTV_p02_r00_v02_c02"),
        *("Cutbread_p04_r01_v03_c05", "Leave_p04_r01_v03_c07"),
    ):
        write_video(tmp_path / "mp4" / f"{name}.mp4", frames=2)

    def names(part: str, protocol: str) -> list[str]:
        records = data.toyota_smarthome(tmp_path, part, protocol)
        assert len(records.classes) == 19
        return sorted(records.classes[r.y] for r in records)

    assert names("train", "CV1") == ["Walk"]
    assert names("train", "CV2") == ["Leave", "Walk"]  # camera 5 is for validation
    assert names("test", "CV1") == names("test", "CV2") == ["Drink.Fromcup"]
    assert len(data.toyota_smarthome(tmp_path).classes) == 6, "CS has every activity"


def test_kinetics_lists_in_both_published_forms(tmp_path, write_video):
    write_video(tmp_path / "juggling balls" / "abc_000010_000020.mp4", frames=2)
    write_video(tmp_path / "xyz_000000_000010.mp4", frames=2)
    listing = tmp_path / "train.csv"
    listing.write_text(
        "label,youtube_id,time_start,time_end,split\n"
        "juggling balls,abc,10,20,train\narchery,xyz,0,10,train\narchery,gone,0,10,train\n"
    )
    records = data.kinetics(tmp_path, listing)
    assert records.classes == ("archery", "juggling balls")
    assert [r.y for r in records] == [1, 0]
    assert list(records.problems.counts.values()) == [1]
    lines = tmp_path / "list.txt"
    lines.write_text("juggling balls/abc_000010_000020.mp4 3\nno label here\n")
    by_line = data.kinetics(tmp_path, lines)
    assert [r.y for r in by_line] == [3]
    assert len(by_line.classes) == 4
    assert len(by_line.problems) == 1
    (tmp_path / "odd.csv").write_text("a,b\n1,2\n")
    with pytest.raises(RecordsError, match="youtube_id"):
        data.kinetics(tmp_path, tmp_path / "odd.csv")


def test_a_folder_of_videos_with_masks_keeps_masks_with_their_frames(tmp_path, write_video):
    videos, masks = tmp_path / "videos", tmp_path / "masks"
    for name in ("run/a.mp4", "walk/b.mp4", "walk/c.mp4"):
        write_video(videos / name, frames=6)
    (videos / "walk" / "notes.txt").write_text("x")
    public = np.zeros((6, 24, 32), bool)
    public[np.arange(6), np.arange(6)] = True  # row i of frame i is public
    (masks / "run").mkdir(parents=True)
    (masks / "walk").mkdir()
    np.savez(masks / "run" / "a.npz", mask=public)
    np.save(masks / "walk" / "b.npy", public.astype(np.uint8))
    records = data.video_folder(videos, masks, sampling=Sampling(2))
    assert records.classes == ("run", "walk")
    assert [r.y for r in records] == [0, 1]  # c has no mask: left out, not taken as public
    assert len(records.problems) == 2
    for record in records:
        assert record.mask.shape == record.x.shape[:3]
        assert [int(frame.any(1).argmax()) for frame in record.mask] == [1, 4]
    assert len(data.video_folder(videos)) == 3
    np.save(masks / "walk" / "b.npy", public[:, :20])
    with pytest.raises(RecordsError, match="like its video"):
        data.video_folder(videos, masks)[1]
    np.save(masks / "walk" / "b.npy", public[:3])
    with pytest.raises(RecordsError, match="every frame"):
        data.video_folder(videos, masks, sampling=Sampling(2))[1]


def test_a_mask_may_be_a_video_or_pictures_bright_where_public(
    tmp_path, write_video, write_picture
):
    import av

    write_video(tmp_path / "videos" / "run" / "a.mp4", frames=2)
    write_video(tmp_path / "videos" / "run" / "b.mp4", frames=2)
    folder = tmp_path / "masks" / "run"
    for i, level in enumerate((0, 255)):
        write_picture(folder / "a" / f"{i:04d}.png", size=(24, 32), level=level)
    with av.open(str(folder / "b.mkv"), "w") as container:
        stream = container.add_stream("ffv1", rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 24, "gray"
        for level in (0, 255):
            frame = av.VideoFrame.from_ndarray(np.full((24, 32), level, np.uint8), format="gray")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    for record in data.video_folder(tmp_path / "videos", tmp_path / "masks"):
        assert [bool(m.all()) for m in record.mask] == [False, True]
        assert [bool(m.any()) for m in record.mask] == [False, True]


def test_a_release_takes_the_place_of_the_originals(tmp_path, write_video):
    for name in ("Walk_p03_r00_v02_c03", "Walk_p03_r01_v02_c03", "Sit_p04_r00_v02_c03"):
        write_video(tmp_path / "mp4" / f"{name}.mp4", frames=2)
    made = tmp_path / "release"
    write_video(made / "mp4" / "Walk_p03_r00_v02_c03.mkv", frames=4)
    write_video(made / "mp4" / "Sit_p04_r00_v02_c03.mkv", frames=4)
    originals = data.toyota_smarthome(tmp_path / "mp4")
    records = originals.from_release(tmp_path / "mp4", made / "mp4")
    assert [len(r.x) for r in records] == [4, 4], "the originals were read"
    assert [r.y for r in records] == [0, 1]
    assert [r.owners for r in records] == [("p04",), ("p03",)]
    assert records.problems.counts["Expected a release of every video, got none: left out."] == 1
    # one exact mask: whatever has none is left out, not taken as public or private by guess
    (made / "mp4" / "Walk_p03_r00_v02_c03.mask.mkv").write_bytes(b"x")
    (made / "mp4" / "Walk_p03_r00_v02_c03.public.mkv").write_bytes(b"x")
    masked = originals.from_release(tmp_path / "mp4", made / "mp4")
    assert [item.owners for item in masked.items] == [("p03",)]
    assert masked.items[0].mask is not None
    assert masked.items[0].layer is not None


def test_layers_of_a_release_are_no_recordings(tmp_path, write_video):
    for suffix in (".mkv", ".mask.mkv", ".public.mkv"):
        write_video(tmp_path / f"Walk_p03_r00_v02_c03{suffix}", frames=2)
        write_video(tmp_path / f"S001C001P001R001A001_rgb{suffix}", frames=2)
    assert len(data.toyota_smarthome(tmp_path)) == 1
    assert len(data.ntu_rgbd(tmp_path)) == 1


def test_nothing_usable_is_an_error_that_says_what_was_found(tmp_path, write_video):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a.txt").write_text("x")
    with pytest.raises(
        RecordsError, match="Expected videos, found none; 1 x Expected videos in class"
    ):
        data.video_folder(tmp_path)
    with pytest.raises(RecordsError, match="as a folder"):
        data.ntu_rgbd(tmp_path / "nowhere")
