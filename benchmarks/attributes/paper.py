"""What the PASS paper publishes (Chen et al., ICML 2025), in its own words; nothing here is ours."""

from __future__ import annotations

from collections.abc import Mapping

# titles of the baselines, in the paper's order (SPAct is in its Table 18 only)
BASELINES: Mapping[str, str] = {
    "adv": "ADV",
    "gap": "GAP",
    "msda": "MSDA",
    "bdq": "BDQ",
    "ppdar": "PPDAR",
    "mass": "MaSS",
    "spact": "SPAct",
}

# Table 1: NAG of gender and of identity by the protector's and by the attacker's classifier
MOTION_SENSE: Mapping[str, tuple[str, ...]] = {
    "adv": ("14.2 ± 2.4", "7.3 ± 0.4", "62.9 ± 7.5", "37.3 ± 10.7", "86.9 ± 11.5"),
    "gap": ("0.0 ± 0.0", "0.0 ± 0.0", "64.2 ± 0.2", "49.5 ± 0.4", "85.5 ± 0.7"),
    "msda": ("0.0 ± 0.1", "5.9 ± 0.9", "65.4 ± 1.6", "46.6 ± 1.5", "93.0 ± 0.5"),
    "bdq": ("18.2 ± 2.0", "5.8 ± 0.4", "56.0 ± 9.4", "30.8 ± 14.8", "90.5 ± 2.3"),
    "ppdar": ("0.2 ± 0.3", "0.9 ± 0.3", "65.7 ± 1.4", "49.8 ± 0.5", "93.7 ± 0.1"),
    "mass": ("1.3 ± 0.6", "1.2 ± 0.2", "65.1 ± 0.5", "49.8 ± 0.2", "93.8 ± 0.1"),
    "pass": ("", "", "0.0 ± 0.0", "0.0 ± 0.0", "98.1 ± 0.3"),
}

# Table 2, with accent and age as its Tables 3 and 8 name them (finding H5)
AUDIO: Mapping[str, Mapping[str, str]] = {
    "adv": {"gender": "71.4 ± 1.2", "digit": "99.8 ± 0.1", "mNAG": "1.0 ± 1.6"},
    "gap": {"gender": "13.3 ± 2.6", "digit": "21.2 ± 0.4", "mNAG": "-7.1 ± 2.4"},
    "msda": {"gender": "78.4 ± 2.9", "digit": "99.8 ± 0.0", "mNAG": "-4.3 ± 0.8"},
    "bdq": {"gender": "69.0 ± 5.8", "digit": "99.7 ± 0.1", "mNAG": "-0.8 ± 1.7"},
    "ppdar": {"gender": "81.7 ± 1.0", "digit": "99.7 ± 0.0", "mNAG": "-6.0 ± 0.8"},
    "mass": {"gender": "88.9 ± 1.2", "digit": "99.5 ± 0.1", "mNAG": "-7.2 ± 0.8"},
    "pass": {
        "gender": "0.0 ± 0.0",
        "accent": "27.6 ± 1.6",
        "age": "46.4 ± 0.9",
        "speaker": "49.7 ± 0.4",
        "digit": "96.5 ± 0.2",
        "mNAG": "55.0 ± 0.7",
    },
}

PASS_ON: Mapping[str, Mapping[str, str]] = {
    "audio": AUDIO["pass"],
    # Tables 4 and 5: Motion Sense and CelebA, other data than ours
    "motion": {
        "sex": "0.0 ± 0.0",
        "person": "0.0 ± 0.0",
        "activity": "98.1 ± 0.3",
        "mNAG": "98.1 ± 0.3",
    },
    "faces": {"gender": "4.9 ± 0.5", "mNAG": "72.9 ± 0.2"},
}

# Table 15: protector with half of the data
HALF_THE_DATA: Mapping[str, str] = {
    "adv": "31.8 ± 1.9",
    "gap": "26.4 ± 0.7",
    "msda": "33.9 ± 0.8",
    "bdq": "33.8 ± 0.7",
    "ppdar": "31.8 ± 0.4",
    "mass": "31.0 ± 0.4",
    "pass": "95.7 ± 0.2",
}

# Table 17, CelebA: NAG of "Male" and mNAG
CELEBA_NOISE: Mapping[str, tuple[str, str]] = {
    "snow": ("97.8 ± 0.1", "-8.5 ± 0.3"),
    "dppix": ("94.5 ± 0.2", "-14.2 ± 0.1"),
    "laplace": ("91.0 ± 0.2", "-11.4 ± 0.5"),
    "dp-image": ("79.6 ± 0.1", "-7.2 ± 0.2"),
    "pass": ("4.9 ± 0.5", "72.9 ± 0.2"),
}

# Table 3: gender, accent, age, ID, digit; mNAG
COMBINATIONS: Mapping[str, str] = {
    "audio-1": "(S) 0.0, (U) 65.2, (U) 77.0, (U) 73.3, (U) 92.0; 76.9 ± 0.2",
    "audio-2": "(S) 9.3, (S) 0.0, (U) 67.8, (U) 61.9, (U) 93.4; 69.7 ± 0.4",
    "audio-3": "(S) 0.1, (S) 0.0, (S) 30.7, (U) 40.0, (U) 95.8; 57.6 ± 0.2",
    "audio-4": "(S) 0.0, (S) 0.0, (S) 0.0, (S) 0.0, (U) 99.5; 99.5 ± 0.2",
}
