"""Writes llms.txt, an index of the documents for language models (https://llmstxt.org), next to the built site.

    llms.py STAGED SITE    STAGED has the sources, and SITE the built pages

The sections and pages are those of the navigation in docs/site/contents.md. Each page is also copied as
Markdown, because a model reads it more easily than HTML. The first sentence of a page describes it.
"""

import pathlib
import re
import runpy
import shutil
import sys

staged, site = map(pathlib.Path, sys.argv[1:])
address = runpy.run_path(str(staged / "conf.py"))["html_baseurl"]


def title_and_paragraph(page):
    """Returns the heading and the first paragraph of the page, as plain text."""
    heading, paragraph = [b for b in page.read_text().split("\n\n") if b.strip()][:2]
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", paragraph.replace("\n", " "))
    return heading.removeprefix("# ").strip(), plain.strip()


def first_sentence(text):
    return re.match(r".*?[.](?= |$)|.*", text)[0].rstrip(".:")


title, summary = title_and_paragraph(staged / "index.md")
lines = [f"# {title}", "", f"> {summary}"]
for tree in re.findall(r"```\{toctree\}\n(.*?)```", (staged / "docs/site/contents.md").read_text(), re.S):
    lines += ["", "## " + re.search(r"^:caption: (.*)$", tree, re.M)[1], ""]
    for entry in re.findall(r"^[^:\n].*$", tree, re.M):
        name = re.search(r"<(.*)>", entry)[1] if "<" in entry else entry
        source = pathlib.Path(name + ".md")
        heading, paragraph = title_and_paragraph(staged / source)
        heading = entry.partition(" <")[0] if "<" in entry else heading
        (site / source).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(staged / source, site / source)
        lines.append(f"- [{heading}]({address}{source}): {first_sentence(paragraph)}")
(site / "llms.txt").write_text("\n".join(lines) + "\n")
