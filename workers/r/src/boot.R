# Sourced while R starts, before any user code. R's own system profile ends by sourcing
# the file that R_TESTS names, which is this one. If .Renviron has set R_TESTS, R sources
# this file instead of the site profile (R_PROFILE); if that is set too, instead of the
# user's (R_PROFILE_USER).
#
# All of this must run on any version of R, so that an R that is too old can report that.
local({
  give_up <- function(...) {
    cat("turnstone: ", ..., "\n", file = stderr(), sep = "")
    quit(save = "no", status = 3L, runLast = FALSE)
  }

  ways <- Sys.getenv(c("R_TESTS", "R_PROFILE", "R_PROFILE_USER"))
  windows <- .Platform$OS.type == "windows"
  shim <- if (windows) "turnstone.dll" else "turnstone.so"
  ours <- basename(ways) == "boot.R" & file.exists(file.path(dirname(ways), shim))
  here <- dirname(ways[ours][1L])
  # R has made its temporary directory: TMPDIR is the user's again, too.
  for (name in c(names(ways)[ours], if (chartr("\\", "/", Sys.getenv("TMPDIR")) == here) "TMPDIR")) {
    users <- Sys.getenv(paste0("TURNSTONE_", name), unset = NA)
    if (is.na(users)) Sys.unsetenv(name)
    else do.call(Sys.setenv, structure(list(users), names = name))
  }
  Sys.unsetenv(paste0("TURNSTONE_", c(names(ways), "TMPDIR")))

  version <- paste(R.version$major, R.version$minor, sep = ".")
  oldest <- if (windows) "4.2" else "4.0"
  if (numeric_version(version) < oldest)
    give_up("this is R ", version, "; the worker needs R ", oldest, " or newer")

  tryCatch(dyn.load(file.path(here, shim)), error = function(e) {
    why <- conditionMessage(e)
    advice <- if (grepl("failed to map segment|not permitted", why))
      "\nPrograms cannot be run from that directory; set TMPDIR to one that allows it." else ""
    give_up("R cannot load the worker's library: ", why, advice)
  })
  setting <- Sys.getenv("TURNSTONE_R")
  why <- .C("turnstone_start", here, version, R.home(),
            as.integer(grepl("keep_going=1", setting, fixed = TRUE)), result = "",
            PACKAGE = "turnstone")$result
  if (nzchar(why)) give_up("R cannot become a worker: ", why)
  # On Windows each C library has its own environment. This changes R's.
  Sys.unsetenv(c("REPL_IPC", "TURNSTONE_R"))

  # What R would have done at this point.
  profile <- function(variable, otherwise, envir) {
    file <- Sys.getenv(variable, c(otherwise[file.exists(otherwise)], "")[1L])
    if (nzchar(file) && file.exists(file)) sys.source(file, envir = envir)
  }
  switch(names(ways)[ours][1L],
         R_TESTS = if (nzchar(Sys.getenv("R_TESTS"))) source(Sys.getenv("R_TESTS")),
         R_PROFILE = profile("R_PROFILE", file.path(R.home("etc"), "Rprofile.site"), baseenv()),
         R_PROFILE_USER = profile("R_PROFILE_USER", c(".Rprofile", "~/.Rprofile"), globalenv()))
  invisible()
})
