"""The documents of this repository as a site: docs/site/build makes it, without the network."""

project = "Turnstone"
author = "Turnstone's authors"
copyright = author
root_doc = "index"
extensions = ["myst_parser"]
highlight_language = "none"  # a block without a language is output or text, not Python
exclude_patterns = ["docs/site/**"]

html_theme = "furo"
html_title = "Turnstone"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

# Links lead where they lead on the web page of the repository: to headings by the names that it
# gives them, and to files that are no documents.
myst_heading_anchors = 4
myst_all_links_external = False
# A page may begin with a second-level heading, and two may share one.
suppress_warnings = ["myst.header"]
# Documents show lines that no lexer knows, such as output and JSON with an ellipsis.
suppress_warnings += ["misc.highlighting_failure"]
