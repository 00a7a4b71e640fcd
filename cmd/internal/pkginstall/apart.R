# Reads the user's .Renviron and .Rprofile, but ignores settings that lead into a directory that a session writes. R
# itself does not read these files at its start, because it would load packages from the libraries that they name.
local({
  given <- function(name) {
    value <- Sys.getenv(name)
    Sys.unsetenv(name)
    value
  }
  apart <- strsplit(given("TURNSTONE_APART"), "\n", fixed = TRUE)[[1L]]
  environ <- given("TURNSTONE_ENVIRON")
  profile <- given("TURNSTONE_PROFILE")
  Sys.unsetenv("R_DEFAULT_PACKAGES")
  is_apart <- function(paths) {
    real <- paste0(normalizePath(paths, mustWork = FALSE), "/")
    vapply(real, function(path) any(startsWith(path, paste0(apart, "/"))), NA, USE.NAMES = FALSE)
  }
  parts <- function(value) strsplit(value, ":", fixed = TRUE)[[1L]]
  before <- Sys.getenv()
  # R's own variables name libraries, packages and files of code.
  restore <- function() {
    for (name in names(now <- Sys.getenv())) {
      led <- startsWith(name, "R_") || any(is_apart(parts(now[[name]])))
      if (identical(now[name], before[name]) || !led) next
      if (name %in% names(before)) do.call(Sys.setenv, as.list(before[name])) else Sys.unsetenv(name)
    }
  }
  set_libraries <- .libPaths
  take_libraries <- function(new, ...) if (missing(new)) set_libraries() else set_libraries(new[!is_apart(new)])
  if (nzchar(environ)) {
    readRenviron(environ)
    libraries <- unlist(lapply(Sys.getenv(c("R_LIBS", "R_LIBS_USER")), parts))
    restore()
    take_libraries(c(libraries, set_libraries()))
  }
  check <- function()
    if (any(is_apart(set_libraries()))) stop("a library of this R is in a directory of the session", call. = FALSE)
  check()

  # In the profile, functions that load or run other code do nothing, and :: finds only R's own packages.
  around <- new.env(parent = baseenv())
  for (name in c("library", "require", "loadNamespace", "requireNamespace", "attachNamespace", "asNamespace", "getNamespace",
                 "source", "sys.source", "parse", "load", "attach", "dyn.load", "library.dynam", "system", "system2", "pipe",
                 "baseenv", "q", "quit"))
    assign(name, function(...) invisible(FALSE), around)
  around$.libPaths <- take_libraries
  around$`::` <- around$`:::` <- function(package, name) {
    package <- as.character(substitute(package))
    name <- as.character(substitute(name))
    if (package == "base") return(get(name, around))
    stopifnot(package %in% c("utils", "tools", "stats", "methods", "parallel", "grDevices", "graphics"))
    getExportedValue(package, name)
  }
  code <- if (nzchar(profile)) try(parse(profile, keep.source = FALSE), silent = TRUE)
  if (is.expression(code)) for (one in code) try(eval(one, around), silent = TRUE)
  restore()
  check()
  invisible(loadNamespace("utils")) # sets the options that the profile does not set
})
