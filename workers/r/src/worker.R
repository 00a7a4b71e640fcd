# What the R worker does in R itself: plots, help as text, completion.
#
# The shim evaluates this file at the first prompt, in an environment of its own below
# the base namespace, with `files` bound to the directory that it lies in. So nothing of it
# is on the search path or in the workspace, and what a user calls `c` or `cat` is never
# met here. Its value is what the shim calls.
#
# The other files are read now, since a directory of temporary files may be cleaned up
# while a session lasts, but parsed when they are first needed.

part <- function(name) {
  path <- file.path(files, name)
  source <- readChar(path, file.size(path), useBytes = TRUE)
  function() eval(parse(text = source, keep.source = FALSE), new.env(parent = worker))
}

worker <- environment()
parse_plots <- part("plots.R")
parse_help <- part("help.R")
parse_complete <- part("complete.R")
delayedAssign("plots", parse_plots())
delayedAssign("help", parse_help())
delayedAssign("completion", parse_complete())
parse_windows <- part("windows.R")

# Calls a function of the shim.
shim <- function(name, ...) .C(getNativeSymbolInfo(name, getLoadedDLLs()[["turnstone"]])$address, ...)

# One line about what is not as the user expects.
note <- function(...) {
  shim("turnstone_note", paste0("[", ..., "]\n"))
  invisible()
}

# The device of plots that go to no device of the user's own.
screen_device <- function(width = NULL, height = NULL, units = "in", res = NULL, pointsize = 12, bg = "white", ...)
  plots$open(width, height, units, res, pointsize, bg)

# A device that a profile chose by the name of a kind of file stands. Anything else is a
# screen that nobody looks at here, unless options(turnstone.device = FALSE) says otherwise.
settle_device <- function() {
  chosen <- getOption("device")
  file_kinds <- c("bitmap", "bmp", "cairo_pdf", "cairo_ps", "jpeg", "pdf", "pictex", "png", "postscript", "svg", "tiff", "xfig")
  if (is.character(chosen) && chosen[1L] %in% file_kinds) return()
  if (!isFALSE(getOption("turnstone.device"))) options(device = screen_device)
}

# A program that a session cannot show or hand the terminal to is replaced, also when a
# profile has chosen it; an R function that it has chosen stands. A pager needs nothing: R
# leaves showing files to the shim, unless the pager is a function.
settle_programs <- function() {
  if (!is.function(getOption("browser"))) options(browser = function(url) help$browse(url))
  if (!is.function(getOption("editor"))) options(editor = function(...) help$no_editor())
  options(help_type = "text", menu.graphics = FALSE, pdfviewer = "echo")
}

# What opens windows and editors whatever the options are; vi() and its like call
# edit.default with a program of their own. Other front ends replace View in the same way.
# Straight code, since R compiles what has loops or is called twice, and compiling would be
# most of the time that a start takes.
settle_utils <- function(...) {
  utils <- asNamespace("utils")
  ours <- list(
    View = function(x, title) help$view(x, if (missing(title)) deparse1(substitute(x)) else title),
    dataentry = function(data, modes) help$no_editor(),
    edit.data.frame = function(name, ...) help$no_editor(),
    edit.matrix = function(name, ...) help$no_editor(),
    edit.default = function(name = NULL, file = "", title = NULL, editor = getOption("editor"), ...) {
      if (!is.function(editor)) help$no_editor()
      invisible(editor(name = name, file = file, title = if (is.null(title)) deparse1(substitute(name)) else title))
    })
  replace_in("utils", ours)

  registerS3method("edit", "data.frame", ours$edit.data.frame, envir = utils)
  registerS3method("edit", "matrix", ours$edit.matrix, envir = utils)
  registerS3method("edit", "default", ours$edit.default, envir = utils)
  registerS3method("print", "vignette", function(x, ...) help$print_vignette(x), envir = utils)
  registerS3method("print", "browseVignettes", function(x, ...) help$print_vignettes(x), envir = utils)
}

# Puts functions in the places of a package's own, also where it is attached.
replace_in <- function(package, ours) {
  put <- function(where, ours) {
    lapply(names(ours), unlockBinding, where)
    list2env(ours, where)
    lapply(names(ours), lockBinding, where)
  }
  put(asNamespace(package), ours)
  attached <- match(paste0("package:", package), search())
  if (is.na(attached) || package == "base") return(invisible())
  where <- as.environment(attached)
  put(where, ours[intersect(names(ours), names(where))])
}

settle_device()
settle_programs()
setHook("reticulate::matplotlib.pyplot::load", function(...) plots$settle_matplotlib())
settle <- function(...) {
  settle_utils()
  if (.Platform$OS.type == "windows") parse_windows()$settle()
}
if (isNamespaceLoaded("utils")) settle() else setHook(packageEvent("utils", "attach"), settle)

list(
  finish = function() plots$finish(),
  page = function() plots$before_text(),
  names = function() ls(globalenv()),
  complete = function(text, cursor) completion$complete(text, cursor)
)
