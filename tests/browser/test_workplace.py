"""The workplace as a student finds it at 1366 by 768: what is seen, what is not, and the dark theme."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit


def test_the_page_that_a_browser_is_handed_leads_on_at_once_with_the_token(lab):
    handed = Path(unquote(urlsplit(lab.address.read_text().strip()).path)).read_text()
    assert re.search(
        r'http-equiv="refresh" content="0;url=http://[^"]+/00_start_here.ipynb\?token=\w+"', handed
    )


def test_the_course_is_seen_and_teachers_buttons_are_not(visitor):
    visitor.page.set_viewport_size({"width": 1366, "height": 768})
    visitor.arrive()
    page = visitor.page
    listed = page.locator(".jp-DirListing-item .jp-DirListing-itemText").all_inner_texts()
    assert {"algorithms", "assignments", "00_start_here.ipynb"} <= set(listed)
    assert not re.search("nbgrader|formgrader|create assignment", page.inner_text("body"), re.IGNORECASE)
    page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^View$")).click()
    assert not re.search("assignment", page.inner_text(".lm-Menu"), re.IGNORECASE)
    page.keyboard.press("Escape")


def test_text_breaks_between_words_and_the_dark_theme_is_readable(visitor):
    visitor.page.set_viewport_size({"width": 1366, "height": 768})
    visitor.arrive()
    visitor.run_all()
    page = visitor.page
    page.evaluate("() => jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    page.wait_for_function("() => document.body.dataset.jpThemeLight === 'false'")
    printed = page.locator(".jp-OutputArea-output.jp-RenderedText pre").first
    assert printed.evaluate("one => getComputedStyle(one).wordBreak") == "normal"
    for index in visitor.figure_cells():
        visitor.wait_for_canvas(index)
        faint = visitor.cell(index).evaluate(FAINT)
        assert not faint, faint
        wide = visitor.cell(index).evaluate("area => area.scrollWidth - area.clientWidth")
        assert wide <= 2, f"cell {index} is {wide} pixels too wide"
        for caption in visitor.cell(index).locator("figcaption").all_text_contents():
            assert not re.search(r"\d (?=[%\w])", caption), f"{caption!r} may break a number from its unit"
        visitor.shot(f"dark_{index:02d}")


#: texts whose color is too near to what is behind them (WCAG: a contrast below 3)
FAINT = """area => {
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const color = (text) => text.match(/[\\d.]+/g).map(Number)
  const behind = (one) => {
    for (; one; one = one.parentElement ?? one.getRootNode().host) {
      const found = color(getComputedStyle(one).backgroundColor)
      if (found.length < 4 || found[3] > 0.5) return found
    }
    return [255, 255, 255]
  }
  const faint = []
  for (const one of area.querySelectorAll("*")) {
    const own = [...one.childNodes].filter((n) => n.nodeType === 3)
    const text = own.map((n) => n.textContent.trim()).join(" ")
    if (!text.trim() || one.tagName === "STYLE" || !one.getClientRects().length) continue
    const [a, b] = [light(color(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x)
    if ((a + 0.05) / (b + 0.05) < 3) faint.push(text.slice(0, 60))
  }
  return faint
}"""
