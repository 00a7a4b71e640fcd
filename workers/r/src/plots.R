# Plots. A screen device of this session is a png() device. It writes one file for each page, when
# the next page starts or the device is closed. Such a file is a finished page and is sent
# unchanged. The open page is not in a file yet. A forked child makes its device write it, before
# the session waits for input and before text that is printed after it. Without fork(), its display
# list is replayed into a second device.
#
# The bytes of an unchanged page equal the file that its own device writes later, so comparing
# bytes shows what is new. Each page has its own source. A change of a page that has been sent is an
# update of that source.

MAX_PAGES <- 50L      # sent between two input requests
MAX_COMPLAINTS <- 3L  # notes about plots that could not be shown, between two input requests
MAX_BYTES <- 60e6     # of an image, which must fit a frame
MAX_PIXELS <- 16384   # of a side; cairo's limit is twice that
MAX_DEVICES <- 62L    # of R's 63: replaying a page takes one

owner <- Sys.getpid()  # a forked child never sends
directory <- ""
devices <- list()      # our devices: environments with
                       #   number, entry  its entry in .Devices, which distinguishes it from a later device of that number
                       #   files          the pattern of its pages' files
                       #   size, look     its options when it was opened; asked: whether a size was given
                       #   page           the number of its open page, and of that page:
                       #   length         the inspected length of the display list
                       #   drawn, title   what was found there; unsent: whether some of it has not been sent
                       #   inspected      whether the page has ended, so that this is all of it
                       #   last           its bytes when it was last sent; replayed: whether they came from a replay
                       #   source         set once it has been sent
opened <- 0L
pages <- 0L
sent <- 0L             # since the last input request
withheld <- 0L
complaints <- 0L
no_device <- FALSE
blanks <- list()       # the bytes of an empty page, by size and look

# ---------------------------------------------------------------- devices

# Opens a device and makes it the current one.
open <- function(width = NULL, height = NULL, units = "in", res = NULL, pointsize = 12, bg = "white") {
  if (Sys.getpid() != owner || no_device) return(grDevices::pdf(NULL))
  if (length(grDevices::dev.list()) >= MAX_DEVICES) stop("too many open devices", call. = FALSE)
  size <- size_of_plots(width, height, units, res)
  if (!dir.exists(directory)) {
    directory <<- tempfile("plots")
    dir.create(directory, recursive = TRUE)
  }
  files <- file.path(directory, paste0("device", opened <<- opened + 1L, "-%05d.png"))
  look <- list(pointsize = pointsize, bg = bg)
  if (!open_png(files, size, look)) {
    no_device <<- TRUE
    note("plots are not shown: this R cannot draw into PNG files here; it needs cairo, or an X server (see capabilities())")
    return(grDevices::pdf(NULL))
  }
  grDevices::dev.control("enable")
  number <- grDevices::dev.cur()
  device <- list2env(list(number = number, entry = .Devices[[number]], files = files, size = size, look = look,
    asked = !is.null(width) || !is.null(height) || !is.null(res), inhibited = FALSE, page = 0L))
  next_page(device)
  if (opened == 1L) start_watching()
  shim("turnstone_drawing")
  devices <<- c(devices, device)
  invisible()
}

open_png <- function(files, size, look) {
  current <- grDevices::dev.cur()
  for (type in unique(c(if (capabilities("cairo")) "cairo", if (.Platform$OS.type == "windows") "windows", getOption("bitmapType")))) {
    tryCatch(suppressWarnings(
      grDevices::png(files, size[1L], size[2L], res = size[3L], pointsize = look$pointsize, bg = look$bg, type = type)
    ), error = function(e) NULL)
    if (grDevices::dev.cur() != current) return(TRUE)  # if cairo cannot be loaded, png() only warns
  }
  FALSE
}

is_open <- function(device)
  device$number <= length(.Devices) && identical(.Devices[[device$number]], device$entry)

# The current device, if it is ours.
current_device <- function() {
  number <- grDevices::dev.cur()
  for (device in devices) if (device$number == number && is_open(device)) return(device)
}

# ---------------------------------------------------------------- sizes

# The size of a plot: c(width, height, res), in pixels and pixels per inch. As in other front ends,
# the options repr.plot.width and .height are in inches, and .res is their resolution.
size_of_plots <- function(width = NULL, height = NULL, units = "in", res = NULL) {
  dpi <- first_size(res, getOption("repr.plot.res"), settings$res)
  per_inch <- switch(units, "in" = 1, cm = 2.54, mm = 25.4, px = dpi, stop("units must be in, cm, mm or px", call. = FALSE))
  inches <- c(
    first_size(if (!is.null(width)) width / per_inch, getOption("repr.plot.width"), settings$width / settings$res),
    first_size(if (!is.null(height)) height / per_inch, getOption("repr.plot.height"), settings$height / settings$res))
  pixels <- round(inches * dpi)
  if (any(pixels > MAX_PIXELS))
    stop(sprintf("a plot of %.0f x %.0f pixels is too large: a side has at most %.0f; lengths are in inches unless units = \"px\"",
      pixels[1L], pixels[2L], MAX_PIXELS), call. = FALSE)
  c(pixels, dpi)
}

first_size <- function(...)
  for (x in list(...)) if (is.numeric(x) && length(x) == 1L && is.finite(x) && x > 0) return(x)

settings <- list(width = 800, height = 600, res = 96)
for (pair in strsplit(strsplit(shim("turnstone_options", "")[[1L]], " ", fixed = TRUE)[[1L]], "=", fixed = TRUE))
  if (length(pair) == 2L && pair[1L] %in% names(settings)) settings[[pair[1L]]] <- as.numeric(pair[2L])

# A new size takes effect with the next page. It discards layout().
resize <- function(device) {
  size <- if (!device$asked) tryCatch(size_of_plots(), error = function(e) complain(conditionMessage(e)))
  if (is.null(size) || identical(device$size, size)) return()
  keep <- graphics::par(no.readonly = TRUE)
  keep[c("fig", "fin", "mai", "mfcol", "mfg", "new", "omd", "omi", "pin", "plt", "usr", "xaxp", "yaxp", "xlog", "ylog")] <- NULL
  grDevices::dev.off(device$number)
  open(pointsize = device$look$pointsize, bg = device$look$bg)
  graphics::par(keep)
}

# ---------------------------------------------------------------- pages

start_watching <- function() {
  setHook("before.plot.new", function(...) page_ends(graphics::par("page")))
  setHook("before.grid.newpage", function(...) page_ends(TRUE))
  setHook("plot.new", function(...) page_begins())
  setHook("grid.newpage", function(...) page_begins())
  watch_children()
}

# A child's output does not pass through R, so plots are shown before a child starts. R has no hook
# for that.
watch_children <- function()
  for (name in c("system", "system2", "pipe")) {
    start <- get(name, baseenv())
    body(start) <- call("{", as.call(list(look)), body(start))
    unlockBinding(name, baseenv())
    assign(name, start, baseenv())
    lockBinding(name, baseenv())
  }

page_begins <- function() {
  collect()
  device <- current_device()
  if (Sys.getpid() != owner || is.null(device)) return()
  if (!device$inhibited && !get("dev.displaylist", asNamespace("grDevices"))()) {
    device$inhibited <- TRUE
    note("a plot is shown when its page ends: dev.control(\"inhibit\") makes R forget drawings")
  }
  shim("turnstone_drawing")
}

# Called when a page may be about to end, because its display list ends with it.
page_ends <- function(ends) {
  device <- current_device()
  if (is.null(device)) return()
  if (Sys.getpid() != owner) return(grDevices::pdf(NULL))  # the device would write the parent's file
  contain({
    inspect(device)
    device$inspected <- ends
    if (ends) {
      keep_going_without_its_files(device)
      resize(device)
    }
  })
}

# If the user has emptied tempdir(), the ending page was lost with its file.
keep_going_without_its_files <- function(device) {
  if (dir.exists(directory)) return()
  dir.create(directory, recursive = TRUE)
  if (device$length > 0L) next_page(device)
}

# Inspects new entries in the display list of this device, which is the current one. Returns the
# recorded page if it has drawings that have not been sent.
inspect <- function(device) {
  page <- grDevices::recordPlot()
  operations <- page[[1L]]
  from <- device$length
  device$length <- length(operations)
  if (from == length(operations)) return(if (device$unsent) page)
  new <- FALSE
  seen <- 0L
  for (operation in operations[(from + 1L):length(operations)]) {
    arguments <- operation[[2L]]
    first <- if (length(arguments)) arguments[[1L]]
    name <- if (is.list(first)) first$name else if (is.call(first)) as.character(first[[1L]])[1L] else ""
    new <- new || !any(name == NOTHING_DRAWN)
    if (name == "C_title" && device$title == "") device$title <- title_of(arguments)
    if (new && (seen <- seen + 1L) > 100L) break
  }
  if (new) device$drawn <- device$unsent <- TRUE
  if (device$unsent) page
}

# Operations that do not change a page's look.
NOTHING_DRAWN <- c("C_par", "C_layout", "C_plot_new", "C_plot_window", "C_strWidth", "C_strHeight", "palette", "palette2",
  "requireNamespace", "gridDirty", "setGPar", "setviewport", "downviewport", "downvppath", "unsetviewport", "upviewport", "initGPar", "initViewportStack",
  "L_gridDirty", "L_setGPar", "L_setviewport", "L_downviewport", "L_downvppath", "L_unsetviewport", "L_upviewport", "L_initGPar", "L_initViewportStack")

title_of <- function(arguments) {
  main <- if (length(arguments) > 1L) arguments[[2L]]
  if (is.list(main) && length(main)) main <- main[[1L]]
  if (is.atomic(main) && length(main)) substr(gsub("[[:space:]]+", " ", as.character(main[1L])), 1L, 200L) else ""
}

# The bytes of the open page of this device, which is the current one, as the device itself would
# write them now. NULL if a child cannot write them. When R closes a device, it activates the next
# one, and a window must not get messages from two processes.
developed <- function(device) {
  if (.Platform$OS.type == "windows" || !all(vapply(.Devices[grDevices::dev.list()], is_of_file, NA))) return()
  file <- file.path(directory, "image.png")
  on.exit(unlink(file))
  if (shim("turnstone_develop", device$number, page_file(device), file, 0L)[[4L]] == 1L && file.exists(file)) {
    bytes <- bytes_of(file)
    if (ends_whole(bytes)) bytes
  }
}

is_of_file <- function(entry) !is.null(attr(entry, "filepath")) || entry == "pdf"  # pdf(NULL)

# Evaluates an expression and restores the state of the user's random numbers.
keeping_seed <- function(action) {
  seed <- globalenv()[[".Random.seed"]]
  on.exit(if (is.null(seed)) suppressWarnings(rm(".Random.seed", envir = globalenv())) else assign(".Random.seed", seed, globalenv()))
  action
}

# The bytes of a page that the function draw draws. Only draw may be interrupted: elsewhere an interrupt
# would leave the second device to the user, or an incomplete file.
image_of <- function(device, draw) {
  current <- grDevices::dev.cur()
  file <- file.path(directory, "image.png")
  second <- NULL
  close <- function() {
    if (is.null(second)) return()
    grDevices::dev.off(second)
    grDevices::dev.set(current)
    second <<- NULL
  }
  on.exit({ close(); unlink(file) })
  suspendInterrupts({
    if (!open_png(file, device$size, device$look)) return(raw())
    second <- grDevices::dev.cur()
    # An error here has occurred before, when the page was drawn.
    allowInterrupts(tryCatch(suppressWarnings(draw()), error = function(e) NULL))
    close()
    if (file.exists(file)) bytes_of(file) else raw()
  })
}

bytes_of <- function(file) suspendInterrupts(readBin(file, "raw", file.size(file)))

# An image without its end was cut off by a full disk.
is_whole <- function(bytes) {
  whole <- ends_whole(bytes)
  if (!whole) complain("a plot could not be shown: no space left in ", directory)
  whole
}

ends_whole <- function(bytes) (n <- length(bytes)) >= 12L && identical(bytes[(n - 11L):n], PNG_END)

PNG_END <- as.raw(c(0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82))

# If the device of a page was closed immediately, only the bytes show whether it has drawings.
is_blank <- function(device, bytes) {
  kind <- paste(c(device$size, device$look), collapse = " ")
  if (is.null(blanks[[kind]]))  # plot.new() would call hooks
    blanks[[kind]] <<- image_of(device, function() .External2(get("C_plot_new", asNamespace("graphics"))))
  identical(bytes, blanks[[kind]])
}

# Sends finished pages, and forgets closed devices.
collect <- function() {
  if (Sys.getpid() != owner) return()
  contain({
    for (device in devices) repeat {
      file <- page_file(device)
      # A device creates the file when a page starts, and fills it when the page ends.
      if (!file.exists(file) || !file.size(file) > 0 && is_open(device) && !file.exists(page_file(device, 1L))) break
      bytes <- bytes_of(file)
      # A replay may look different, such as points at random positions. That is not a change.
      known <- identical(bytes, device$last) || device$replayed && device$inspected && !device$unsent
      if (is_whole(bytes) && !known && (device$drawn || !is_blank(device, bytes))) {
        if (sent < MAX_PAGES) send(device, bytes) else withheld <<- withheld + 1L
      }
      unlink(file)
      next_page(device)
    }
    devices <<- devices[vapply(devices, is_open, NA)]
  })
}

page_file <- function(device, behind = 0L) sprintf(device$files, device$page + behind)

next_page <- function(device) {
  device$page <- device$page + 1L
  device$length <- 0L
  device$drawn <- device$unsent <- device$replayed <- device$inspected <- FALSE
  device$title <- ""
  device$last <- raw()
  device$source <- ""
}

send <- function(device, bytes) {
  sent <<- sent + 1L
  device$last <- bytes
  if (length(bytes) > MAX_BYTES) {
    note(sprintf("a plot of %.0f MB is not shown: the limit is %.0f MB", length(bytes) / 1e6, MAX_BYTES / 1e6))
    return()
  }
  update <- device$source != ""
  if (!update) device$source <- paste0("plot-", pages <<- pages + 1L)
  shim("turnstone_image", bytes, length(bytes), "image/png", device$source, as.integer(update), device$title)
}

# Called before the session waits for input.
finish <- function() {
  if (Sys.getpid() != owner) return()
  collect()
  for (device in devices) contain(send_open_page(device))
  if (withheld > 0L)
    note(sprintf("%d more finished plots are not shown: the limit is %d at a time", withheld, MAX_PAGES))
  sent <<- withheld <<- complaints <<- 0L
}

# Called at the end of a notebook's cell. As in IRkernel, the next cell starts with an empty page and
# without the settings of par() and layout(). Otherwise its drawings would change a plot above it.
end_cell <- function() {
  finish()
  if (Sys.getpid() != owner) return()
  for (device in devices) contain({
    device$inspected <- TRUE
    if (is_open(device)) grDevices::dev.off(device$number)
  })
  collect()
}

# Called before text, so that images and text are in order: before the first text after a drawing,
# then less and less often. Returns one of the results below.
before_text <- function() {
  if (Sys.getpid() != owner) return(PAGE_NONE)
  before <- sent
  tryCatch({
    look()
    if (sent > before) PAGE_SENT else if (length(devices) || sent > 0L || withheld > 0L) PAGE_UNCHANGED else PAGE_NONE
  }, interrupt = function(i) PAGE_INTERRUPTED)
}

look <- function() {
  if (Sys.getpid() != owner) return()
  collect()
  device <- current_device()
  if (!is.null(device) && sent < MAX_PAGES) contain(send_open_page(device))
}

PAGE_NONE <- 0L  # and there will be none before a device is opened; the shim uses the same numbers
PAGE_UNCHANGED <- 1L
PAGE_SENT <- 2L
PAGE_INTERRUPTED <- 3L  # the interrupt was meant for user code

# The open page is sent even beyond the bound, because it is the last.
send_open_page <- function(device) {
  current <- grDevices::dev.cur()
  if (current != device$number) {
    grDevices::dev.set(device$number)
    on.exit(grDevices::dev.set(current))
  }
  page <- inspect(device)
  if (is.null(page)) return()
  bytes <- developed(device)
  device$replayed <- is.null(bytes)
  if (device$replayed) bytes <- keeping_seed(image_of(device, function() grDevices::replayPlot(page)))
  device$unsent <- FALSE  # not earlier: after an interrupt it is sent later
  if (is_whole(bytes) && !identical(bytes, device$last)) send(device, bytes)
}

# A plot that cannot be shown is not an error of the user's code.
contain <- function(action)
  tryCatch(action, error = function(e) complain("a plot could not be shown: ", conditionMessage(e)))

complain <- function(...)
  if ((complaints <<- complaints + 1L) <= MAX_COMPLAINTS) note(...)

# ---------------------------------------------------------------- Python within R

# Makes plt.show() work for the matplotlib that reticulate loads into this process.
show_matplotlib <- function() {
  pyplot <- reticulate::import("matplotlib.pyplot")
  if (Sys.getenv("MPLBACKEND") == "") pyplot$switch_backend("agg")
  reticulate::py_set_attr(pyplot, "show", function(...) show_figures(pyplot))
}

show_figures <- function(pyplot) {
  if (Sys.getpid() != owner) return(invisible())
  look()
  shim("turnstone_drawing")  # withheld plots are reported at the end
  file <- tempfile(fileext = ".png")
  on.exit({ unlink(file); pyplot$close("all") })
  for (number in unlist(pyplot$get_fignums())) {
    pyplot$figure(as.integer(number))$savefig(file, format = "png")
    bytes <- bytes_of(file)
    if (length(bytes) > MAX_BYTES || sent >= MAX_PAGES) withheld <<- withheld + 1L
    else if (is_whole(bytes)) {
      sent <<- sent + 1L
      shim("turnstone_image", bytes, length(bytes), "image/png", paste0("plot-", pages <<- pages + 1L), 0L, "")
    }
  }
  invisible()
}

list(open = open, finish = finish, end_cell = end_cell, before_text = before_text, show_matplotlib = show_matplotlib)
