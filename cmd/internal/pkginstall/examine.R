# Prints the facts on which compiled packages depend, and the requested packages that are missing.
local({
  say <- function(kind, text) cat("turnstone: ", kind, " ", text, "\n", sep = "")
  say("fact", paste("R", getRversion(), R.version$platform, R.home()))
  for (url in getOption("repos")) say("fact", paste("repository", url))
  for (p in commandArgs(trailingOnly = TRUE))
    if (!nzchar(system.file(package = p))) say("missing", p)
})
