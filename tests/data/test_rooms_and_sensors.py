"""UTD-MHAD, AIRTLab, MotionSense, SisFall, AudioMNIST: published layouts in miniature, and the real ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.io import savemat, wavfile

from sfumato import data
from sfumato.data import RecordsError


def test_utd_mhad_reads_published_files_with_time_first_and_an_exact_mask(tmp_path, write_video):
    depth = np.zeros((24, 32, 5))
    depth[2:6, 3:9] = np.arange(1, 6) * 400.0  # millimetres; frame t is t+1 steps away
    depth[0, 0, :] = 3.0  # closer than one step: must not turn into background
    for subject in (1, 2):
        name = f"a3_s{subject}_t4"
        for folder in ("Depth", "Inertial", "Skeleton"):
            (tmp_path / folder).mkdir(exist_ok=True)
        savemat(tmp_path / "Depth" / f"{name}_depth.mat", {"d_depth": depth})
        inertial = np.arange(42.0).reshape(7, 6)
        savemat(tmp_path / "Inertial" / f"{name}_inertial.mat", {"d_iner": inertial})
        skeleton = np.random.default_rng(0).random((20, 3, 5))
        savemat(tmp_path / "Skeleton" / f"{name}_skeleton.mat", {"d_skel": skeleton})
        write_video(tmp_path / "RGB" / f"{name}_color.avi")
    savemat(tmp_path / "Depth" / "a99_s1_t1_depth.mat", {"d_depth": depth})
    train = data.utd_mhad(tmp_path, "depth", "train")
    record = train[0]
    assert len(train) == 1
    assert (record.y, record.owners, record.attributes["trial"]) == (2, ("s1",), 4)
    assert record.x.shape == (5, 24, 32, 3)
    assert record.x[:, 3, 4, 0].tolist() == [25, 50, 75, 100, 125]
    assert np.array_equal(record.mask, np.moveaxis(depth, -1, 0) == 0)
    assert len(train.problems) == 1
    assert [r.owners for r in data.utd_mhad(tmp_path, "depth", "test")] == [("s2",)]
    assert np.array_equal(data.utd_mhad(tmp_path, "inertial")[0].x, inertial.astype(np.float32))
    seen = data.utd_mhad(tmp_path, "skeleton")[1].x.reshape(5, 20, 3)
    assert np.allclose(seen, np.moveaxis(skeleton, -1, 0))
    assert data.utd_mhad(tmp_path, "rgb", "test")[0].owners == ("s2",)
    with pytest.raises(RecordsError, match="depth, inertial, skeleton or rgb"):
        data.utd_mhad(tmp_path, "sound")


@pytest.mark.real_data
def test_the_real_utd_mhad_has_its_published_counts(real_data):
    records = data.utd_mhad(real_data / "utd_mhad", "inertial")
    assert len(records) == 861
    assert len(records.classes) == 27
    assert records.owners == [record.owners for record in records]
    assert len(set(records.owners)) == 8
    depth = data.utd_mhad(real_data / "utd_mhad", "depth", "test")[5]
    assert depth.x.shape[1:] == (120, 160, 3)
    assert 0.5 < depth.mask.mean() < 1.0
    assert (depth.x[depth.mask] == 0).all()
    assert (depth.x[~depth.mask] > 0).all()


def test_airtlab_gives_its_kind_or_its_actions(tmp_path, write_video):
    root = tmp_path / "violence-detection-dataset"
    for kind, listing, rows in (
        ("violent", "violent", "FILE;ACTION CLASSES\n1.mp4;punch, kick\n2.mp4;push\n"),
        ("non-violent", "nonviolent", "FILE;ACTION CLASSES\n1.mp4;hug\n"),
    ):
        for camera in ("cam1", "cam2"):
            write_video(root / kind / camera / "1.mp4", frames=2)
        (root / f"{listing}-action-classes.csv").write_text(rows)
    kinds = data.airtlab(tmp_path)
    assert [r.y for r in kinds] == [0, 0, 1, 1]
    assert [r.attributes["performance"] for r in kinds] == ["non-violent-1"] * 2 + ["violent-1"] * 2
    actions = data.airtlab(tmp_path, "actions")
    assert actions.classes == ("hug", "kick", "punch", "push")
    assert actions[2].y.tolist() == [0, 1, 1, 0]
    assert len(actions.problems) == 2  # clip 2 of both cameras is not there
    with pytest.raises(RecordsError, match="kind or actions"):
        data.airtlab(tmp_path, "sex")


@pytest.mark.real_data
def test_the_real_airtlab_reads_from_its_index(real_data):
    records = data.airtlab(real_data / "airtlab", "actions", sampling=data.Sampling(4))
    assert len(records) == 145
    record = records[0]
    assert record.x.shape == (4, 126, 224, 3)
    named = {name for name, here in zip(records.classes, record.y) if here}
    assert named == {"hug", "highfive"}


def test_windows_are_whole_and_stride_apart():
    signal = np.arange(20, dtype=np.float32).reshape(10, 2)
    cut = data.windows_of(signal, 4, 3)
    assert cut.shape == (3, 4, 2)
    assert cut[:, 0, 0].tolist() == [0, 6, 12]
    assert np.array_equal(cut[1], signal[3:7])
    assert data.windows_of(signal, 11, 1).shape == (0, 11, 2)
    assert data.magnitudes(np.array([[3, 4, 0, 0, 5, 12]], np.float32)).tolist() == [[5.0, 13.0]]


def test_motion_sense_splits_by_trial_and_leaves_stillness_out(tmp_path):
    (tmp_path / "data_subjects_info.csv").write_text(
        "code,weight,height,age,gender\n1,102,188,46,1\n2,72,180,28,0\n"
    )
    header = ",attitude.roll,rotationRate.x,rotationRate.y,rotationRate.z,userAcceleration.x,userAcceleration.y,userAcceleration.z"
    for trial, subjects in (
        ("dws_1", (1, 2)),
        ("dws_11", (2,)),
        ("wlk_15", (1,)),
        ("sit_5", (1,)),
        ("jog_9", (7,)),
    ):
        folder = tmp_path / "A_DeviceMotion_data" / trial
        folder.mkdir(parents=True)
        for subject in subjects:
            rows = [f"{i},9,3,4,0,0,0,{i}" for i in range(148)]
            (folder / f"sub_{subject}.csv").write_text("\n".join([header, *rows]))
    train = data.motion_sense(tmp_path)
    assert train.x.shape == (6, 128, 2)  # (148 - 128) / 10 + 1 = 3 windows of each of two people
    assert np.allclose(train.x[1, :, 0], 5.0)
    assert train.x[1, :3, 1].tolist() == [10, 11, 12]
    assert [r.owners[0] for r in train] == ["sub_1"] * 3 + ["sub_2"] * 3
    assert train.attributes["sex"].tolist() == [1, 1, 1, 0, 0, 0]
    assert train.attribute_classes["person"] == ("sub_1", "sub_2")
    assert len(train.problems) == 1  # subject 7 is not in the list
    test = data.motion_sense(tmp_path, "test", magnitude=False)
    assert test.x.shape[2] == 6
    assert sorted(set(test.y.tolist())) == [0, 2]
    assert 5 in data.motion_sense(tmp_path, still=True).y
    # as the published archive unpacks: a folder of the same name inside
    (tmp_path / "A_DeviceMotion_data").rename(tmp_path / "inner")
    (tmp_path / "A_DeviceMotion_data").mkdir()
    (tmp_path / "inner").rename(tmp_path / "A_DeviceMotion_data" / "A_DeviceMotion_data")
    assert np.array_equal(data.motion_sense(tmp_path).x, train.x)


def test_sisfall_reads_published_text_at_200_hertz(tmp_path):
    (tmp_path / "Readme.txt").write_text(
        "| SA01 | 26 | 165 | 53 | F |\n| SE06 | 60 | 163 | 79 | M |\n"
    )
    for subject in ("SA01", "SE06", "SA09"):
        (tmp_path / subject).mkdir()
        rows = [f"{256 * (i % 4)},0,0, 0,0,{i},1,2,3;" for i in range(1024)]
        (tmp_path / subject / f"D01_{subject}_R01.txt").write_text("\n".join(rows))
        (tmp_path / subject / f"F01_{subject}_R01.txt").write_text("falls are not walks")
    records = data.sisfall(tmp_path, magnitude=False)
    assert records.x.shape == (6, 128, 6)  # 256 samples at 50 Hz, stride 64: 3 windows each
    assert np.allclose(records.x[..., 0], 384 * 2 * 16 / 2**13)  # mean of four samples, in g
    assert records.x[0, 0, 5] == pytest.approx(1.5 * 4000 / 2**16)
    assert {r.owners[0] for r in records} == {"SA01", "SE06"}
    assert records.attributes["sex"].tolist() == [0] * 3 + [1] * 3
    assert len(records.problems) == 1
    assert {r.owners[0] for r in data.sisfall(tmp_path, subjects=("SE06",))} == {"SE06"}


@pytest.mark.real_data
def test_the_real_sisfall_has_38_people_of_both_sexes(real_data):
    records = data.sisfall(real_data / "sisfall")
    assert records.x.shape[1:] == (128, 2)
    assert len(records) > 10_000
    assert len(set(records.attributes["person"].tolist())) == 38
    assert set(records.attributes["sex"].tolist()) == {0, 1}
    assert 0.8 < float(np.median(records.x[..., 0])) < 1.3  # gravity


def test_audio_mnist_reads_recordings_and_speakers(tmp_path):
    facts = {
        "01": {"accent": "German", "age": 30, "gender": "male"},
        "02": {"accent": "german", "age": "25", "gender": "female"},
    }
    for speaker in ("01", "02", "77"):
        folder = tmp_path / "data" / speaker
        folder.mkdir(parents=True)
        for take in (0, 40):
            time = np.arange(24_000) / 48_000
            tone = 8000 * np.sin(2 * np.pi * (400 if take == 0 else 3000) * time)
            wavfile.write(folder / f"7_{speaker}_{take}.wav", 48_000, tone.astype(np.int16))
    (tmp_path / "data" / "audioMNIST_meta.txt").write_text(json.dumps(facts))
    train, test = data.audio_mnist(tmp_path, "train"), data.audio_mnist(tmp_path, "test")
    assert train.x.shape == (2, 40, 32, 1)
    assert train.y.tolist() == [7, 7]
    assert [r.owners for r in train] == [("speaker_01",), ("speaker_02",)]
    assert train.attribute_classes["accent"] == ("german",)
    assert train.attribute_classes["age"] == ("25", "30")
    assert train.attributes["age"].tolist() == [1, 0]
    assert train.attributes["sex"].tolist() == [1, 0]
    assert len(train.problems) == 1
    low, high = (int(r.x[0, :, 16, 0].argmax()) for r in (train, test))
    assert low < 12 < 25 < high  # a low tone lies in a low band
    assert train.x[0, :, 0].max() < 60  # silence before the sound
    assert train.x.max() == 255


@pytest.mark.real_data
def test_the_real_audio_mnist_has_the_papers_majority_classes(real_data):
    records = data.audio_mnist(real_data / "audiomnist")
    assert len(records) == 30_000
    shares = {
        name: np.bincount(np.asarray(values)).max() / len(records)
        for name, values in records.attributes.items()
    }
    expected = {"sex": 0.800, "accent": 0.683, "age": 0.167, "speaker": 0.017, "digit": 0.100}
    assert {name: round(share, 3) for name, share in shares.items()} == expected
    counts = {name: len(names) for name, names in records.attribute_classes.items()}
    assert counts == {"digit": 10, "sex": 2, "accent": 16, "age": 18, "speaker": 60}
    assert len(data.audio_mnist(real_data / "audiomnist", "test")) == 6_000
