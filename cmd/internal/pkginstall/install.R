# Installs packages and their missing dependencies into a library.
local({
  say <- function(kind, text) cat("turnstone: ", kind, " ", text, "\n", sep = "")
  args <- commandArgs(trailingOnly = TRUE)
  lib <- args[[1L]]
  wanted <- args[-1L]
  options(warn = 1, menu.graphics = FALSE)
  repos <- getOption("repos")
  repos[repos == "@CRAN@"] <- "https://cloud.r-project.org"
  options(repos = repos)
  there <- rownames(utils::installed.packages())
  .libPaths(c(lib, .libPaths()))
  cat("looking into ", paste(repos, collapse = ", "), "\n", sep = "")
  available <- utils::available.packages()
  unknown <- setdiff(wanted, rownames(available))
  if (length(unknown))
    stop("no package ", paste(unknown, collapse = ", "), " for this R in ", paste(repos, collapse = ", "), call. = FALSE)
  needed <- tools::package_dependencies(wanted, available, c("Depends", "Imports", "LinkingTo"), recursive = TRUE)
  all <- union(wanted, setdiff(unlist(needed), there))
  say("total", length(all))
  utils::install.packages(all, lib = lib, quiet = FALSE)
  # install.packages only warns about a package that cannot be installed.
  failed <- setdiff(wanted, list.files(lib))
  if (length(failed)) stop("not installed: ", paste(failed, collapse = ", "), call. = FALSE)
})
