"""The page in a real browser: no complaint, every figure drawn."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from sfumato.report import write_report

# Added to a copy: measures what the browser laid out and complains once, to show that we would hear it.
_PROBE = """<script>
console.error("a complaint on purpose");
const drawn = [...document.querySelectorAll("figure[id]")].map(figure => {
  const inner = figure.querySelector("svg, img"), box = inner.getBoundingClientRect();
  const texts = [...figure.querySelectorAll("svg text")].map(t => t.getBoundingClientRect());
  return {id: figure.id, width: box.width, height: box.height, texts: texts.length,
          outside: texts.filter(t => t.left < box.left - 2 || t.right > box.right + 2
                                  || t.top < box.top - 2 || t.bottom > box.bottom + 2).length};
});
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
document.body.innerHTML = "<pre id=found></pre>";
document.getElementById("found").textContent = JSON.stringify({drawn, wide});
</script></body>"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no Chromium here: apt-get install chromium brings one")
    return found


def browse(chromium: str, page: Path, profile: Path) -> tuple[str, list[str]]:
    """The page as the browser understood it, and what it complained about."""
    done = subprocess.run(
        [
            chromium,
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--enable-logging=stderr", f"--user-data-dir={profile}", "--window-size=1000,1200"),
            *("--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.mark.slow
def test_browser_draws_every_figure_and_does_not_complain(
    chromium: str, run: Path, tmp_path: Path
) -> None:
    target = tmp_path / "report.html"
    report = write_report([run], target)
    shown, complaints = browse(chromium, target, tmp_path / "profile")
    assert complaints == []
    assert shown.count("<figure ") == report.summary()["figures"] + report.summary()["pictures"]

    page = re.sub(r"<meta http-equiv=[^>]*>", "", target.read_text())
    probed = tmp_path / "probed.html"
    probed.write_text(page.replace("</body>", _PROBE))
    answered, complaints = browse(chromium, probed, tmp_path / "profile")
    assert len(complaints) == 1
    found = re.search(r'<pre id="found">(.*?)</pre>', answered, re.DOTALL)
    assert found is not None
    measured = json.loads(unescape(found[1]))
    assert len(measured["drawn"]) == 7
    for figure in measured["drawn"]:
        assert min(figure["width"], figure["height"]) >= 40, figure
        assert figure["outside"] == 0, figure
        assert figure["texts"] > 0 or "picture" in figure["id"], figure
    assert measured["wide"] <= 0
