"""The built manual, as a browser of this machine shows it."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.markdown import ROOT

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

# Each page in a frame of each width, and the counts of its elements that are too wide.
MEASURE = """<!DOCTYPE html><body><script>
const shown = [];
for (const page of %s) for (const width of [1280, 400]) {
  const frame = document.createElement("iframe");
  Object.assign(frame, { src: page, width, height: 800 });
  shown.push(new Promise(loaded => frame.onload = () => {
    const html = frame.contentDocument.documentElement;
    const boxes = [...html.querySelectorAll("article .md-typeset__scrollwrap")];
    const hidden = boxes.filter(box => box.scrollWidth > box.clientWidth);
    const scrolls = box => frame.contentWindow.getComputedStyle(box).overflowX == "auto";
    const counts = [boxes.length, hidden.length, hidden.filter(scrolls).length];
    loaded([page, width, html.scrollWidth - html.clientWidth, ...counts].join(" "));
  }));
  document.body.append(frame);
}
Promise.all(shown).then(lines => {
  document.body.innerHTML = "";
  document.body.append(Object.assign(document.createElement("pre"), {
    textContent: lines.join(";"),
  }));
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_tables_of_manual_fit_or_scroll(tmp_path):
    site = tmp_path / "site"
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", site]
    subprocess.run(build, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1"} | os.environ, check=True)
    pages = sorted(each.name for each in site.glob("*.html") if each.name != "404.html")
    (site / "measure.html").write_text(MEASURE % pages, encoding="utf-8")
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --dump-dom "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--allow-file-access-from-files --timeout=60000"
    )
    shown = subprocess.run(
        [
            CHROMIUM,
            *flags.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            (site / "measure.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    measured = re.search("<pre>(.*)</pre>", shown)[1].split(";")
    assert len(measured) == 2 * len(pages)
    tables = 0
    for line in measured:
        _, width, sideways, boxes, hidden, scrolling = line.split()
        tables += int(boxes)
        assert sideways == "0", line
        assert hidden == scrolling, line
        if width == "1280":
            assert hidden == "0", line
    assert tables > 100
