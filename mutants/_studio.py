"""Mistakes in what keeps the studio safe (801-814)."""

from __future__ import annotations

from mutants._mutant import Mutant, Patch

_SECURITY = "tests/studio/test_security.py"
_FOLDERS = "tests/studio/test_hostile_folders.py"
_DOOR, _LIBRARY = "studio/_security.py", "studio/_library.py"


def _mutant(number: str, title: str, file: str, old: str, new: str, test: str) -> Mutant:
    return Mutant(number, f"studio: {title}", (Patch(file, old, new),), (test,))


MUTANTS = (
    _mutant(
        "801", "any name of the machine is answered", _DOOR,
        'if headers.getlist("host") not in [[name] for name in self.hosts]:',
        'if not headers.getlist("host"):',
        f"{_SECURITY}::test_a_rebound_name_is_not_answered",
    ),
    _mutant(
        "802", "another site may ask", _DOOR,
        'if any(each not in {f"http://{name}" for name in self.hosts} for each in origins):',
        "if len(origins) > 1:",
        f"{_SECURITY}::test_another_origin_is_refused_even_with_everything_else",
    ),
    _mutant(
        "803", "any word will do against forged requests", _DOOR,
        'if not _same(headers.get(CSRF_HEADER, ""), csrf):',
        "if CSRF_HEADER not in headers:",
        f"{_SECURITY}::test_nothing_is_done_without_the_csrf_header",
    ),
    _mutant(
        "804", "a link opens twice", _DOOR,
        "        self._token = secrets.token_urlsafe(32)\n        session",
        "        session",
        f"{_SECURITY}::test_the_link_opens_once_and_the_next_one_is_another",
    ),
    _mutant(
        "805", "the cookie goes to every port of the machine", _DOOR,
        'samesite="strict", path=home)', 'samesite="strict", path="/")',
        f"{_SECURITY}::test_the_cookie_is_for_this_site_alone_and_no_script_reads_it",
    ),
    _mutant(
        "806", "a link below the folder is followed", _LIBRARY,
        "if path.resolve() != path or (name and self.root not in path.parents):",
        "if name and self.root not in path.parents:",
        f"{_SECURITY}::test_a_recording_that_becomes_a_link_is_gone",
    ),
    _mutant(
        "807", "read only is for reading and a little more", _DOOR,
        "if self.read_only and path.removeprefix(self.place) not in _CHANGES_NOTHING:",
        'if self.read_only and path.endswith("/protect"):',
        f"{_SECURITY}::test_read_only_does_nothing",
    ),
    _mutant(
        "808", "work that came with a folder runs", "studio/_studio.py",
        "resumes=not changes or library.is_own", "resumes=True",
        f"{_FOLDERS}::test_work_that_nobody_began_does_not_run",
    ),
    _mutant(
        "809", "settings of a kept job are believed", "studio/_tasks.py",
        '    protect.check_form(arguments["method"], arguments["settings"])\n    if arguments["folder"]',
        '    if arguments["folder"]',
        f"{_FOLDERS}::test_prepared_work_fails_even_when_somebody_resumes_it",
    ),
    _mutant(
        "810", "a release goes where a link leads", _LIBRARY,
        "if first != RELEASED or not rest or path.is_symlink() or path.resolve() != path:",
        "if first != RELEASED or not rest:",
        f"{_FOLDERS}::test_a_release_does_not_follow_a_link_out",
    ),
    _mutant(
        "811", "a browser may keep frames", _DOOR,
        '"cache-control": "no-store"', '"cache-control": "private"',
        f"{_SECURITY}::test_every_answer_bears_the_headers",
    ),
    _mutant(
        "812", "bodies of any size are read", _DOOR,
        "if came > most:", "if came > 64 * most:",
        f"{_SECURITY}::test_bodies_are_bounded_whether_they_say_their_size_or_not",
    ),
    _mutant(
        "813", "frames are drawn until they are kind", "studio/_releases.py",
        "if (begun := _begun(studio, entry)) is not None:",
        'if (begun := _begun(studio, entry)) is not None and not begun["frames"]:',
        f"{_FOLDERS}::test_a_sample_is_answered_before_another_is_drawn",
    ),
    _mutant(
        "814", "a mask that was carried along is trusted", "people/_corrections.py",
        "person = person if row.confirmed else _whole(person)", "row = row",
        "tests/people/test_corrections.py::test_somebody_followed_is_covered_by_the_whole_box_until_looked_at",
    ),
)  # fmt: skip
