# Replacements for functions that open windows in R for Windows. They ask in the session or print
# to its output, because a session has no desktop.

cancelled <- function(answer) !nzchar(trimws(answer))

# ---------------------------------------------------------------- base, utils

file.choose <- function(new = FALSE) {
  file <- readline("Enter file name: ")
  if (cancelled(file)) stop("file choice cancelled", call. = FALSE)
  path.expand(file)
}

choose.files <- function(default = "", caption = "Select files", multi = TRUE, filters = NULL, index = 0L) {
  files <- character()
  repeat {
    file <- readline(paste0(caption, if (multi) ", one at a time (empty: no more)", ": "))
    if (!cancelled(file)) files <- c(files, path.expand(file))
    if (cancelled(file) || !multi) return(files)
  }
}

choose.dir <- function(default = "", caption = "Select folder") {
  dir <- readline(paste0(caption, ": "))
  if (cancelled(dir)) NA_character_ else path.expand(dir)
}

winDialog <- function(type = c("ok", "okcancel", "yesno", "yesnocancel"), message) {
  buttons <- switch(match.arg(type), ok = character(), okcancel = c("OK", "CANCEL"), yesno = c("YES", "NO"), yesnocancel = c("YES", "NO", "CANCEL"))
  if (length(buttons) == 0L) {
    writeLines(message)
    return(invisible(NULL))
  }
  repeat {
    answer <- toupper(trimws(readline(paste0(message, " [", paste(tolower(buttons), collapse = "/"), "]: "))))
    if (!nzchar(answer)) return(buttons[length(buttons)])
    chosen <- buttons[startsWith(buttons, answer)]
    if (length(chosen) == 1L) return(chosen)
  }
}

winDialogString <- function(message, default) {
  answer <- readline(paste0(message, if (nzchar(default)) paste0(" [", default, "]"), ": "))
  if (nzchar(answer)) answer else default
}

# R's own function, which never shows a window.
choosing_in_text <- function(original) {
  force(original)
  function(choices, preselect = NULL, multiple = FALSE, title = NULL, graphics = FALSE)
    original(choices, preselect = preselect, multiple = multiple, title = title, graphics = FALSE)
}

# Progress is shown as a text bar.
winProgressBar <- function(title = "R progress bar", label = "", min = 0, max = 1, initial = 0, width = 300L) {
  writeLines(c(title, label)[nzchar(c(title, label))])
  utils::txtProgressBar(min, max, initial, style = 3)
}
setWinProgressBar <- function(pb, value, title = NULL, label = NULL) utils::setTxtProgressBar(pb, value)
getWinProgressBar <- function(pb) utils::getTxtProgressBar(pb)

shell.exec <- function(file) {
  note("not opened: ", file, ": a session cannot open programs on the desktop")
  invisible()
}

# ---------------------------------------------------------------- images and pages

window <- function(width, height, pointsize = 12, ...)
  plots$open(if (!missing(width)) width, if (!missing(height)) height, "in", NULL, pointsize, "white")

# There is no screen, so raising a window does nothing.
no_window <- function(...) invisible()

# R does not let a front end show files. Pages for terminals underline and embolden an X by
# "_\bX" and "X\bX".
pager <- function(files, header = rep("", length(files)), title = NULL, delete.file = FALSE) {
  for (i in seq_along(files)) {
    if (length(header) >= i && nzchar(header[i])) cat(header[i], "\n\n", sep = "")
    text <- readLines(files[i], warn = FALSE)
    while (any(grepl("\b", text, fixed = TRUE))) text <- gsub(".\b", "", text)
    writeLines(text)
  }
  if (isTRUE(delete.file)) unlink(files)
  cat("\n")
}

# Replaces R's own functions with all of these.
replace_all <- function() {
  if (!is.function(getOption("pager"))) options(pager = pager)
  replace_in("base", list(file.choose = file.choose, shell.exec = shell.exec))
  replace_in("grDevices", list(windows = window, win.graph = window, x11 = window, X11 = window, bringToTop = no_window))
  utils <- asNamespace("utils")
  replace_in("utils", list(
    choose.files = choose.files, choose.dir = choose.dir, winDialog = winDialog, winDialogString = winDialogString,
    select.list = choosing_in_text(utils$select.list),
    winProgressBar = winProgressBar, setWinProgressBar = setWinProgressBar, getWinProgressBar = getWinProgressBar))
}

list(replace_all = replace_all)
