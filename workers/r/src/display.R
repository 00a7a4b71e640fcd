# Rich forms of values besides their text: a table for a data frame or matrix, the page of a widget.

MAX_ROWS <- 2000L     # of a table, even if the user's options allow more
MAX_COLUMNS <- 200L
MAX_CELL <- 200L      # characters
MAX_PAGE <- 16e6      # bytes of a page with everything that it loads
MAX_TYPES <- 8L       # of one bundle

# Called with the visible value of an expression at the top level, after its echo. The options are
# IRkernel's.
value <- function(x) {
  failing <- function(action) tryCatch(suppressWarnings(suppressMessages(action)), error = function(e) NULL)
  html <- if (tables$is_table(x) && !isFALSE(getOption("jupyter.rich_display"))) failing(table(x))
  if (is.null(html)) return(invisible())
  if (nchar(html, "bytes") > MAX_PAGE) too_large("table")
  else send(c("text/html" = html, structure(failing(tables$first(x)), names = tables$MIME)), result = TRUE)
  invisible()
}

send <- function(types, result = FALSE, title = "") {
  types <- enc2utf8(types)
  shim("turnstone_display", names(types), unname(types), length(types), as.integer(result), title)
}

# A small HTML table of a data frame or matrix: the first and last rows, and the first columns.
table <- function(x) {
  rows <- nrow(x)
  columns <- ncol(x)
  width <- chosen("repr.matrix.max.cols", 20L, MAX_COLUMNS)
  half <- (chosen("repr.matrix.max.rows", 60L, MAX_ROWS) + 1L) %/% 2L
  shown <- seq_len(min(columns, width))
  at <- if (rows <= 2L * half) seq_len(rows) else c(seq_len(half), seq.int(rows - half + 1L, rows))
  cells <- lapply(shown, function(j) {
    column <- tables$cells_of(x, at, j)
    text <- if (is.list(column) && !is.data.frame(column)) vapply(column, function(v) paste(class(v)[1L], length(v)), "") else format(column)
    if (is.matrix(text) || is.data.frame(text)) text <- do.call(paste, as.data.frame(text))
    escape(cut(trimws(tables$valid(text))))
  })
  kinds <- vapply(shown, function(j) class(if (is.data.frame(x)) .subset2(x, j) else x[0L, j])[1L], "")
  gap <- if (rows > 2L * half) half
  names <- escape(cut(tables$row_names(x, at)))
  lines <- vapply(seq_along(at), function(i)
    paste0("<tr><th scope=row>", names[i], "</th>", if (length(cells)) paste0("<td>", vapply(cells, `[`, "", i), "</td>", collapse = ""), "</tr>"), "")
  if (!is.null(gap)) lines <- append(lines, sprintf("<tr><td colspan=%d>\u22ee</td></tr>", length(cells) + 1L), gap)
  more <- if (columns > width) sprintf(", the first %d shown", width) else ""
  paste0("<table><caption>", class(x)[1L], ": ", rows, " \u00d7 ", columns, more, "</caption><thead><tr><th></th>",
    if (length(shown)) paste0("<th scope=col>", escape(cut(tables$column_names(x, shown))), "<br>&lt;", escape(kinds), "&gt;</th>", collapse = ""),
    "</tr></thead><tbody>", paste(lines, collapse = "\n"), "</tbody></table>")
}

# The value of an option, within bounds.
chosen <- function(option, default, most) {
  n <- getOption(option)
  if (is.numeric(n) && length(n) == 1L && !is.na(n) && n >= 1) as.integer(min(n, most)) else default
}

cut <- function(text) {
  text <- tables$valid(text)
  text[is.na(text)] <- "NA"
  long <- nchar(text, allowNA = TRUE) > MAX_CELL
  long <- !is.na(long) & long
  text[long] <- paste0(substr(text[long], 1L, MAX_CELL), "\u2026")
  text
}

escape <- function(text)
  gsub(">", "&gt;", gsub("<", "&lt;", gsub("&", "&amp;", text, fixed = TRUE), fixed = TRUE), fixed = TRUE)

# options(viewer): shows a page that a package has written, such as a widget, a gt table or a plotly plot.
view <- function(url, height = NULL, ...) {
  url <- sub("^file://", "", url)
  if (!file.exists(url)) return(help$browse(url))
  page <- readChar(url, file.size(url), useBytes = TRUE)
  Encoding(page) <- "UTF-8"
  widget <- match_one('class="([A-Za-z0-9_.]+) html-widget', page)
  title <- if (nzchar(widget)) paste(widget, "widget") else "page"
  figure <- if (widget == "plotly") figure_of(page) else ""
  whole <- tryCatch(inlined(page, dirname(url)), error = function(e) NULL)
  types <- c("application/vnd.plotly.v1+json" = if (nzchar(figure)) figure, "text/html" = whole)
  if (sum(nchar(types, "bytes")) > MAX_PAGE) types <- types[1L]
  if (is.null(types)) too_large(title)
  else send(types, title = title)
  invisible()
}

match_one <- function(pattern, text) {
  found <- regmatches(text, regexec(pattern, text, perl = TRUE))[[1L]]
  if (length(found) > 1L) found[2L] else ""
}

# The figure in the JSON of a plotly widget: its x, without the widget's additions.
figure_of <- function(page) {
  json <- match_one('(?s)<script type="application/json" data-for="[^"]*">(.*?)</script>', page)
  x <- match_one('(?s)^\\s*\\{"x":(\\{.*\\}),"evals":.*\\}\\s*$', json)
  if (grepl('"data":', x, fixed = TRUE)) x else ""
}

# options(jupyter.base_display_func): called by packages that show something in a notebook through
# IRdisplay. An image is sent alone, without the text that comes with it.
publish <- function(data, metadata = NULL) {
  offered <- names(data)
  image <- intersect(c("image/png", "image/jpeg"), offered)[1L]
  if (!is.na(image)) {
    bytes <- data[[image]]
    if (!is.raw(bytes)) bytes <- base64enc::base64decode(bytes)
    if (length(bytes) > MAX_PAGE) too_large("image")
    else shim("turnstone_image", bytes, length(bytes), image, "", 0L, "")
    return(invisible())
  }
  data <- data[!is_binary(names(data)) & !vapply(data, is.raw, NA)]
  data <- data[seq_len(min(length(data), MAX_TYPES))]
  texts <- vapply(data, function(x) paste(enc2utf8(if (is.character(x)) x else as.character(jsonlite::toJSON(x, auto_unbox = TRUE))), collapse = "\n"), "")
  if (length(texts) == 0L) note("cannot show any of the types ", paste(offered, collapse = ", "))
  else if (sum(nchar(texts, "bytes")) > MAX_PAGE) too_large(names(texts)[1L])
  else send(texts)
  invisible()
}

is_binary <- function(types) grepl("^(image|audio|video)/|^application/(pdf|octet-stream)", types) & !grepl("xml$", types)

too_large <- function(what) note(sprintf("the %s is not shown: it is larger than %.0f MB, including what it loads", what, MAX_PAGE / 1e6))

# options(jupyter.clear_output_func)
clear <- function(wait = TRUE) note("output is not cleared: R sessions cannot remove what was shown")

# The page with its scripts and styles inlined, or NULL if that would be too large.
inlined <- function(page, dir) {
  size <- nchar(page, "bytes")
  patterns <- c(script = '<script src="([^":]+)"[^>]*></script>', style = '<link href="([^":]+)" rel="stylesheet"[^>]*>')
  for (tag in names(patterns)) repeat {
    at <- regexec(patterns[[tag]], page, useBytes = TRUE)[[1L]]
    if (at[1L] < 0L) break
    from <- at[1L]
    n <- attr(at, "match.length")
    bytes <- charToRaw(page)
    file <- file.path(dir, utils::URLdecode(rawToChar(bytes[seq.int(at[2L], length.out = n[2L])])))
    content <- if (file.exists(file)) readBin(file, "raw", file.size(file)) else raw()
    size <- size + length(content)
    if (size > MAX_PAGE) return(NULL)
    bytes <- c(bytes[seq_len(from - 1L)], charToRaw(paste0("<", tag, ">")), closed(content), charToRaw(paste0("</", tag, ">")), bytes[-seq_len(from + n[1L] - 1L)])
    page <- rawToChar(bytes)
  }
  Encoding(page) <- "UTF-8"
  page
}

# A script must not close its own element.
closed <- function(content) {
  text <- rawToChar(content[content != 0L])
  charToRaw(gsub("</script", "<\\/script", text, fixed = TRUE, useBytes = TRUE))
}

environment()
