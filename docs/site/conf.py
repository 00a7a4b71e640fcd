"""The configuration of the documentation site, which docs/site/build builds without the network."""

project = "Turnstone"
author = "Turnstone's authors"
copyright = author
html_baseurl = "https://turnstone-repl.github.io/turnstone/"
root_doc = "index"
extensions = ["myst_parser"]
highlight_language = "none"  # a block without a language is output or text, not Python
exclude_patterns = ["docs/site/**", ".github/**", "plugins/**"]

html_theme = "furo"
html_title = "Turnstone"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

# Links work as on the web page of the repository: to headings by the anchors that it generates, and to
# files that are not documents.
myst_heading_anchors = 4
myst_all_links_external = False
# A page may begin with a second-level heading, and two may share one.
suppress_warnings = ["myst.header"]
# Documents contain lines that no lexer accepts, such as output and JSON with an ellipsis.
suppress_warnings += ["misc.highlighting_failure"]
