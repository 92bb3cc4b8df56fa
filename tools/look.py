"""Opens every page of the site in Chromium, as `make look` does.

Pages are opened at two widths, in frames of one page that reports what it finds: errors of
scripts, sideways scrolling, tables that do not fit the wider page, and searches without results.
Links and files from the network are found by reading the pages. It prints each problem, and ends
with exit code 1 if there are any.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

SITE = Path(__file__).parent.parent / "docs" / "_build"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = (1280, 390)
SEARCHES = ("recompile", "checkpoint", "Linear", "export", "bucket", "summary")
# Attributes whose files a reader's browser fetches when it opens a page.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src")}

HARNESS = """<!doctype html><title>look</title><body><script>
const jobs = JOBS, found = [];
const wait = time => new Promise(done => setTimeout(done, time));
async function look(page, width, query) {
  const frame = document.createElement("iframe");
  frame.style = `width:${width}px; height:900px; border:0`;
  const say = text => found.push(`${page} at ${width} pixels: ${text}`);
  const loaded = new Promise(done => { frame.onload = done; });
  frame.src = "/" + page;
  document.body.append(frame);
  await loaded;
  const root = frame.contentDocument.documentElement;
  const extra = root.scrollWidth - root.clientWidth;
  if (extra > 0) say(`scrolls sideways by ${extra}`);
  if (width >= 1000) for (const each of frame.contentDocument.querySelectorAll(".table-wrapper"))
    if (each.scrollWidth > each.clientWidth + 1)
      say(`a table is wider than its place by ${each.scrollWidth - each.clientWidth}: ` +
          each.textContent.trim().slice(0, 40).replace(/\\s+/g, " "));
  if (query) {
    let results = 0;
    for (let time = 0; time < 300 && !results; time++) {
      await wait(100);
      results = frame.contentDocument.querySelectorAll("ul.search > li").length;
    }
    if (!results) say("the search finds nothing");
  }
  frame.remove();
}
async function work() { for (let job; (job = jobs.pop()); ) await look(...job); }
Promise.all([work(), work(), work(), work()])
  .catch(error => found.push(String(error)))
  .then(() => fetch("/found", {method: "POST", body: JSON.stringify(found)}));
</script>"""


class Links(HTMLParser):
    """The links, the anchors and the fetched files of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.anchors.add(value)
            elif (tag, name) in FETCHED and dict(attrs).get("rel") not in ("canonical", "next"):
                self.fetched.append(urljoin(f"/{self.page}", value or ""))
            elif (tag, name) == ("a", "href"):
                self.links.append(urljoin(f"/{self.page}", value or ""))


def read_pages(site: Path) -> dict[str, Links]:
    """Every page of the site, by its path."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        path = file.relative_to(site).as_posix()
        if not path.startswith("_static/"):
            pages[path] = Links(path)
            pages[path].feed(file.read_text())
    return pages


def broken_links(site: Path, pages: dict[str, Links]) -> Iterator[str]:
    """The links and files that lead nowhere, and files that would come from the network."""
    for path, page in pages.items():
        for address in page.fetched:
            if urlsplit(address).netloc:
                yield f"{path}: loads {address} from the network"
        for address in {*page.links, *page.fetched}:
            parts = urlsplit(address)
            if parts.scheme in ("http", "https", "mailto") or parts.netloc:
                continue
            target = unquote(parts.path).lstrip("/")
            if not (site / target).is_file():
                yield f"{path}: no file for the link {address}"
            elif target in pages and unquote(parts.fragment) not in {"", *pages[target].anchors}:
                yield f"{path}: no anchor for the link {address}"


class Handler(SimpleHTTPRequestHandler):
    """The files of the site, the page that opens them, and the place for its report."""

    harness = b""
    found: list[str] | None = None
    arrived = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/look":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(self.harness)
        else:
            super().do_GET()

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        type(self).found = json.loads(text)
        self.arrived.set()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """The address at which the site is served while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


def opened(browser: str, site: Path, jobs: list[list[Any]], seconds: float) -> list[str]:
    """The problems of pages in the browser. A job is a page, a width and whether it searches."""
    Handler.harness = HARNESS.replace("JOBS", json.dumps(jobs)).encode()
    with served(site) as address, tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [
            browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            f"--user-data-dir={folder}/profile", "--window-size=1400,1000",
            "--enable-logging=stderr", f"{address}/look",
        ]  # fmt: skip
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream)
        try:
            if not Handler.arrived.wait(seconds):
                return [f"the browser did not finish within {seconds:.0f} seconds"]
        finally:
            process.terminate()
            process.wait()
        console = [line for line in log.read_text().splitlines() if "CONSOLE" in line]
    return [*(Handler.found or []), *console]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", help="pages such as index.html; all if none is given")
    parser.add_argument("--site", type=Path, default=SITE, help="the folder of the site")
    parser.add_argument("--search", nargs="*", default=SEARCHES, help="words to search for")
    parser.add_argument("--seconds", type=float, default=3600, help="the time for the browser")
    options = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"look: skipped: none of {', '.join(BROWSERS)} is installed")
        return 0
    if not (options.site / "index.html").exists():
        print(f"look: there is no {options.site}/index.html; run `make docs` first")
        return 1
    pages = read_pages(options.site)
    jobs = [[page, width, False] for page in options.pages or pages for width in WIDTHS]
    jobs += [[f"search.html?q={word}", WIDTHS[0], True] for word in options.search]
    found = [
        *broken_links(options.site, pages),
        *opened(browser, options.site, jobs, options.seconds),
    ]
    print(
        "\n".join(found) if found else f"look: {len(jobs)} views of {len(pages)} pages, no problem"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
