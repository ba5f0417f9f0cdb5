"""The pages of the site that are not in `docs/`: a hook of MkDocs, which `make docs` runs (mkdocs.yml).

- README, CHANGELOG, CONTRIBUTING and the map of the code become pages.
- Each public module has a page of reference, made of the docstrings that its names have when it is imported. A public
  name without a docstring fails the build.
- Pages link to files of the repository, as one reads them there. What is no page itself becomes one under `source/`,
  and a link whose text is the name of a definition leads to the line of the definition. A link to nothing fails the
  build.

- The index of the search has every heading and every public name, with what prose says of them; it is loaded when
  the reader opens the search.
- A page waits for one stylesheet, and for no script.

`reference.py` has what is public, and what is said of it.
"""

from __future__ import annotations

import json
import posixpath
import re
import struct
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import reference  # noqa: E402  (it stands beside this file)

# Files of the repository that are pages under another name.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "didax/MAP.md": "map.md",
}
LINK = re.compile(r"(?<!\\)(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
# The theme's script loads the index of the search at once, but for pages from the file system: when the search opens.
AT_ONCE = re.compile(r'[\w$]+\([\w$]+\(location\.protocol!=="file:"\),([\w$]+\("search"\))\)')
GENERATED = ("changelog.html", "primitives.html")  # long lists, of which other pages speak
LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown", ".js": "javascript", "": "make"}
sources: set[str] = set()  # files of the repository that became pages under source/


def on_config(config: Any) -> Any:
    """The navigation, with pages that it does not name, and the reference."""
    named = set(re.findall(r"[\w/.-]+\.md", str(config.nav)))
    guides = next(section["Guides"] for section in config.nav if "Guides" in section)
    guides += sorted(page.name for page in (ROOT / "docs").glob("*.md") if page.name not in named)
    section = next(section for section in config.nav if "Reference" in section)
    section["Reference"] = [{name: reference.page_of(name)} for name in reference.MODULES]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are made of other files."""
    from mkdocs.structure.files import File  # tests read this file where MkDocs is not installed

    for path, page in PAGES.items():
        head = "---\nhide: [navigation]\n---\n" if page == "index.md" else ""
        files.append(File.generated(config, page, content=head + (ROOT / path).read_text()))
    for name in reference.MODULES:
        files.append(File.generated(config, reference.page_of(name), content=reference.page(name)))
    sources.clear()
    for file in list(files.documentation_pages()):
        if is_made_of_code(file.src_uri):
            sources.update(re.findall(r'<a href="\.\./source/([\w/.-]+)\.html#', file.content_string))
            continue
        for _, _, target in links(file.content_string):
            path = repository_path(file.src_uri, target)
            if path is not None and site_path(path) is None:
                sources.add(path)
    for path in sorted(sources):
        files.append(File.generated(config, f"source/{path}.md", content=source_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files of the repository lead to their pages."""
    if is_made_of_code(page.file.src_uri):
        return markdown

    def replace(match: re.Match[str]) -> str:
        return rewritten(page.file.src_uri, *match.groups())

    return outside_code(markdown, lambda text: LINK.sub(replace, text))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Pictures are loaded when the reader comes near them, into a space of their size; no heading of a table is empty.

    A heading without a text would be read aloud as one.
    """
    html = re.sub(r"<th([^>]*)></th>", r"<td\1></td>", html)
    return with_lazy_pictures(html, posixpath.dirname(page.file.dest_uri))


def with_lazy_pictures(html: str, folder: str) -> str:
    """A page of `folder` whose pictures are lazy, and have sizes where they are PNGs of docs/."""

    def lazy(tag: re.Match[str]) -> str:
        path = ROOT / "docs" / posixpath.normpath(posixpath.join(folder, tag[2]))
        size = ""
        if path.suffix == ".png" and path.is_file():
            width, height = struct.unpack(">II", path.read_bytes()[16:24])  # of the first chunk, IHDR
            size = f' width="{width}" height="{height}"'
        return f'<img loading="lazy"{size}{tag[1]}src="{tag[2]}"'

    return re.sub(r'<img( [^>]*?)src="([^"]*)"', lazy, html)


def on_post_page(html: str, page: Any, config: Any) -> str:
    """Nothing keeps a page from being shown but its text and one stylesheet."""
    return shown_at_once(html)


def shown_at_once(html: str) -> str:
    """A page without the stylesheets that `join_stylesheets` puts into the first one, and whose scripts wait for it."""
    html = re.sub(r'<link rel="stylesheet" href="[^"]*(?:/palette\.\w+\.min|site/site)\.css">\s*', "", html)
    return html.replace('<script src="', '<script defer src="')


def join_stylesheets(site: Path) -> None:
    """Put the theme's colours and our own rules behind the theme's other rules: one file in place of three."""
    styles = site / "assets/stylesheets"
    (main,), (palette,) = styles.glob("main.*.min.css"), styles.glob("palette.*.min.css")
    parts = [main, palette, site / "site/site.css"]
    main.write_text("\n".join(part.read_text() for part in parts))


def on_post_build(config: Any) -> None:
    """One stylesheet, and a smaller index for the search, which pages load when the reader opens the search."""
    site = Path(config.site_dir)
    join_stylesheets(site)
    path = site / "search/search_index.json"
    index = json.loads(path.read_text())
    index["docs"] = [indexed(entry) for entry in index["docs"]]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text)
    path.with_suffix(".js").write_text(f"var __index = {text}")  # for pages from the file system
    for script in site.glob("assets/javascripts/bundle.*.min.js"):
        changed, count = AT_ONCE.subn(r"\1", script.read_text())
        if count != 1:  # another version of the theme: the search works, and pages load more
            print(f"{script.name} loads the index of the search with each page: see AT_ONCE", file=sys.stderr)
        script.write_text(changed)


on_post_build.mkdocs_priority = -200  # type: ignore[attr-defined]  # after the plugins, which write the index


def indexed(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the search's index without code and without generated tables.

    Of a public name, the index has the first paragraph of the docstring; the other paragraphs are on its page.
    """
    page, _, anchor = entry["location"].partition("#")
    text = re.sub(r"<pre>.*?</pre>", " ", entry["text"], flags=re.DOTALL)
    if page.startswith("reference/") or page in GENERATED:
        paragraphs = re.findall(r"<p>.*?</p>", text, flags=re.DOTALL)
        text = " ".join(paragraphs[:1] if anchor or page in GENERATED else paragraphs)
    plain = " ".join(re.sub(r"<[^>]*>", " ", text).split())
    title = re.sub(r"<[^>]*>", "", entry["title"])
    return {**entry, "title": title, "text": plain.removesuffix(" Source"), "boost": boost(page)}


def boost(page: str) -> float:
    """How much a page counts in the search: who types a common word looks for a guide, then for a name."""
    if page in GENERATED or page.startswith(("design/", "reference/didax.ex")):
        return 0.3
    return 1 if "/" in page else 4


def is_made_of_code(src_uri: str) -> bool:
    """True for pages of sources and of docstrings, which have no links to rewrite, but much that looks like one."""
    return src_uri.startswith(("source/", "reference/"))


def outside_code(markdown: str, change: Any) -> str:
    """The page with its text changed, but not its blocks of code."""
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def links(markdown: str) -> list[tuple[str, str, str]]:
    """The links of a page: `!` of pictures, the text, the target."""
    return LINK.findall(FENCE.sub("", markdown))


def repository_path(src_uri: str, target: str) -> str | None:
    """The path in the repository that a link of a page leads to; None for links to elsewhere."""
    path = target.partition("#")[0]
    if not path or re.match(r"[a-z]+:", target):
        return None
    home = {page: path for path, page in PAGES.items()}.get(src_uri, f"docs/{src_uri}")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(home), path))
    if (ROOT / found).is_dir():
        names = [f"{found}/{name}" for name in ("README.md", "__init__.py")]
        found = next((name for name in names if (ROOT / name).exists()), found)
    if not (ROOT / found).is_file():
        raise SystemExit(f"A link leads to nothing: {target} in {home}")
    return found


def site_path(path: str) -> str | None:
    """The page, or the file of the site, that a file of the repository is; None if it is shown as a source."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/") and Path(path).suffix not in (".py", ".toml"):
        return path.removeprefix("docs/")
    return None


def rewritten(src_uri: str, picture: str, text: str, target: str) -> str:
    """A link of a page as the site has it."""
    path = repository_path(src_uri, target)
    if path is None:
        return f"{picture}[{text}]({target})"
    anchor = target.partition("#")[2]
    here, page = posixpath.dirname(src_uri) or ".", site_path(path)
    if page is not None:
        return f"{picture}[{text}]({posixpath.relpath(page, here)}{'#' + anchor if anchor else ''})"
    line = anchor.removeprefix("L") or line_of(path, text.strip("`"))
    url = posixpath.relpath(f"source/{path}.html", here) + (f"#L-0-{line}" if line else "")
    return f'<a href="{url}">{text}</a>'  # MkDocs does not know the anchors of lines


def line_of(path: str, name: str) -> int | None:
    """The line of a file that defines a name; None without one."""
    if not name.isidentifier():
        return None
    definition = re.compile(rf"(class|def) {name}\b|{name}(: .*)? = ")
    lines = (ROOT / path).read_text().splitlines()
    return next((i for i, line in enumerate(lines, 1) if definition.match(line)), None)


def source_page(path: str) -> str:
    """The page of a source file."""
    language, text = LANGUAGES.get(Path(path).suffix, "text"), (ROOT / path).read_text()
    head = "---\nsearch:\n  exclude: true\nhide: [toc, navigation]\n---\n"
    return f'{head}# `{path}`\n\n~~~~~~ {{.{language} linenums="1"}}\n{text}\n~~~~~~\n'
