# The part of the R worker that is written in R: plots, help as text, completion.
#
# The shim evaluates this file at the first prompt, in a separate environment below the base
# namespace, with `files` bound to its directory. So none of its objects are on the search path or
# in the workspace, and a user's `c` or `cat` is never called here. Its value is a list of the
# functions that the shim calls.
#
# The other files are read now, since a temporary directory may be cleaned up during a session.
# They are parsed when they are first needed.

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
parse_functions <- part("functions.R")
delayedAssign("functions", parse_functions())
parse_display <- part("display.R")
parse_inspect <- part("inspect.R")
parse_tables <- part("tables.R")
delayedAssign("display", parse_display())
delayedAssign("inspection", parse_inspect())
delayedAssign("tables", parse_tables())
parse_windows <- part("windows.R")

# Calls a function of the shim. The shim uses no header of R, so its functions are called by address.
shim <- function(name, ...) .C(address_of(name), ...)
shim_value <- function(name, ...) .Call(address_of(name), ...)
address_of <- function(name) getNativeSymbolInfo(name, getLoadedDLLs()[["turnstone"]])$address

# Whether a variable can be read without running user code. Promises of a package only load its
# objects; other promises are user code.
is_plain <- function(name, env)
  !bindingIsActive(as.symbol(name), env) && (is_package(env) || !shim_value("turnstone_is_promise", as.symbol(name), env))

is_package <- function(env)
  isNamespace(env) || identical(env, baseenv()) || startsWith(environmentName(env), "package:")

# The environment in which code at the top level finds the variable, or NULL.
where_is <- function(name) {
  env <- globalenv()
  while (!identical(env, emptyenv())) {
    if (exists(name, envir = env, inherits = FALSE)) return(env)
    env <- parent.env(env)
  }
}

# Prints one line about something that the user may not expect.
note <- function(...) {
  shim("turnstone_note", paste0("[", ..., "]\n"))
  invisible()
}

# The device for plots while the user has not opened one.
screen_device <- function(width = NULL, height = NULL, units = "in", res = NULL, pointsize = 12, bg = "white", ...)
  plots$open(width, height, units, res, pointsize, bg)

# A file device that a profile has set is not changed. Any other device is a screen, which is
# invisible here. It is replaced unless options(turnstone.device = FALSE) is set.
set_device <- function() {
  chosen <- getOption("device")
  file_kinds <- c("bitmap", "bmp", "cairo_pdf", "cairo_ps", "jpeg", "pdf", "pictex", "png", "postscript", "svg", "tiff", "xfig")
  if (is.character(chosen) && chosen[1L] %in% file_kinds) return()
  if (!isFALSE(getOption("turnstone.device"))) options(device = screen_device)
}

# Programs that need a screen or the terminal are replaced, even if a profile has set them. An R
# function that a profile has set is not changed. R lets the shim show files as a whole unless the pager
# is a function; at a user's terminal it is a function that runs the user's pager.
replace_programs <- function() {
  pager <- getOption("pager")
  if (is.character(pager) && nzchar(pager) && !(Sys.getenv("TERM") %in% c("", "dumb"))) options(pager = help$in_pager(pager))
  if (!is.function(getOption("browser"))) options(browser = function(url) help$browse(url))
  if (!is.function(getOption("editor"))) options(editor = function(...) help$no_editor())
  if (!is.function(getOption("viewer"))) options(viewer = function(url, ...) display$view(url, ...))
  shows <- list(
    jupyter.base_display_func = function(data, metadata = NULL) display$publish(data, metadata),
    jupyter.clear_output_func = function(wait = TRUE) display$clear(wait))
  chosen <- vapply(names(shows), function(name) is.function(f <- getOption(name)) && environmentName(environment(f)) != "IRdisplay", NA)
  options(shows[!chosen])  # IRdisplay's own functions only warn
  options(help_type = "text", menu.graphics = FALSE, pdfviewer = "echo")
}

# Replaces functions that open windows and editors regardless of the options. vi() and similar
# functions call edit.default with their own program. Other front ends replace View in the same way.
# The code has no loops, because R compiles code that has loops or is called twice, and compiling
# would take most of the start-up time.
replace_utils <- function(...) {
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
  # R waits for the viewer, which only prints the path of the file, within the turn.
  ours$RShowDoc <- utils$RShowDoc
  environment(ours$RShowDoc) <- list2env(
    list(system2 = function(command, ..., wait) base::system2(command, ..., wait = identical(command, "echo"))), parent = utils)
  replace_in("utils", ours)

  registerS3method("edit", "data.frame", ours$edit.data.frame, envir = utils)
  registerS3method("edit", "matrix", ours$edit.matrix, envir = utils)
  registerS3method("edit", "default", ours$edit.default, envir = utils)
  registerS3method("print", "vignette", function(x, ...) help$print_vignette(x), envir = utils)
  registerS3method("print", "browseVignettes", function(x, ...) help$print_vignettes(x), envir = utils)
}

# Replaces functions of a package, also where the package is attached.
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

# A task callback of the shim comes before all others. The user's callbacks have the same numbers as
# without it.
replace_callbacks <- function() {
  add <- addTaskCallback
  remove <- removeTaskCallback
  names <- getTaskCallbackNames
  ahead <- function() as.integer(identical(names()[1L], "turnstone"))
  replace_in("base", list(
    addTaskCallback = function(f, data = NULL, name = character()) {
      if (!is.function(f)) stop("handler must be a function")
      hidden <- ahead()
      if (!length(name)) name <- length(names()) - hidden + 1L
      number <- if (missing(data)) add(f, name = name) else add(f, data, name)
      structure(number - hidden, names = name)
    },
    removeTaskCallback = function(id) remove(if (is.character(id)) id else as.integer(id) + ahead()),
    getTaskCallbackNames = function() names()[seq_along(names()) > ahead()]))
}

set_device()
replace_programs()
replace_callbacks()
setHook("reticulate::matplotlib.pyplot::load", function(...) plots$show_matplotlib())
replace_all <- function(...) {
  replace_utils()
  if (.Platform$OS.type == "windows") parse_windows()$replace_all()
}
if (isNamespaceLoaded("utils")) replace_all() else setHook(packageEvent("utils", "attach"), replace_all)

# Evaluates a call of the shim. Its errors and warnings do not reach options(error), options(warn) or
# the user's global handlers. An error becomes NULL.
quietly <- function(action)
  tryCatch(withCallingHandlers(action, warning = muffle), error = function(e) NULL)
muffle <- function(w)
  for (restart in computeRestarts(w)) if (restart$name == "muffleWarning") invokeRestart(restart)

# Called with each uncaught error of rlang, which prints its errors itself, so that R has no message.
# A handler of all errors would also run when memory is exhausted, and R would lose the error. The
# colours in the message are only for the terminal.
hear <- function(e)
  if (inherits(e, "error")) # and not what it then raises without a message
    shim("turnstone_error", tryCatch(gsub("\033\\[[0-9;]*m", "", enc2utf8(as.character(conditionMessage(e))[1L])), error = function(e) ""))

# The width of R's output follows the user's terminal. At first, a width set in the user's profile has
# precedence.
follow_width <- local({
  first <- TRUE
  function(columns) {
    if (columns > 0L && (!first || identical(getOption("width"), 80L)))
      options(width = min(max(columns, 10L), 10000L))
    first <<- FALSE
  }
})

# TRUE if readline() or menu() reads, and not a connection or scan(); otherwise NULL.
asks <- function() {
  askers <- c(list(base::readline), if (isNamespaceLoaded("utils")) list(utils::menu))
  for (i in seq_len(sys.nframe()))
    for (asker in askers) if (identical(sys.function(i), asker)) return(TRUE)
}

list(
  quietly = quietly,
  listen = function() globalCallingHandlers(rlang_error = hear),
  width = follow_width,
  asks = asks,
  finish = function() plots$finish(),
  end_cell = function() plots$end_cell(),
  page = function() plots$before_text(),
  refresh = function() functions(),
  variables = function() shim_value("turnstone_variables", ls(globalenv())),
  complete = function(text, cursor) completion$complete(text, cursor),
  inspect = function(text, cursor) completion$silently(inspection$inspect(text, cursor), character()),
  table = function(text) completion$silently(tables$page(text), NULL),
  parse = function(text) shim_value("turnstone_parse", text),
  value = function(x) display$value(x)
)
