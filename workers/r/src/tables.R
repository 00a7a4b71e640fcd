# Tables: data frames and matrices as bounded rows of text, for readers that page through them.
#
# A display has the first rows and a handle. R has no weak references to such values. So a handle
# holds only the address of its value, which a query looks for among the variables and in
# .Last.value. A value that is in neither is no longer there.

MIME <- "application/vnd.turnstone.table+json"
FIRST <- 50L          # rows in a display
FIRST_BYTES <- 131072 # of a display; one row and all names always fit
MAX_ROWS <- 1000L
MAX_COLUMNS <- 50L
MAX_BYTES <- 245760   # of a page, without the bytes that a query adds
MAX_HANDLES <- 16L
MAX_CELL <- 200L      # characters
MAX_NAME <- 100L
MAX_TYPE <- 50L
MAX_SORTED <- 5e6     # rows that are sorted or searched, which cannot be interrupted
MAX_TEXTS <- 1e6      # rows of texts, which take longer to sort

known <- list()  # by handle: the address of a value, and the sum of its first page
count <- 0L
made <- as.numeric(Sys.time())

# The first rows of a value with its handle, as JSON.
first <- function(x) {
  page <- part(x, seq_len(min(FIRST, nrow(x))), FIRST_BYTES)
  json(c(page, list(handle = quoted(remember(x, page)))))
}

remember <- function(x, page) {
  at <- tryCatch(address(x), error = function(e) "")
  if (!nzchar(at)) return("")
  count <<- count + 1L
  handle <- sprintf("t%d-%x%x", count, Sys.getpid(), as.integer(made %% 1e9))
  known[[handle]] <<- list(at = at, sum = checksum(page))
  if (length(known) > MAX_HANDLES) known <<- known[-1L]
  handle
}

address <- function(x) format(.Internal(address(x)))

# Tells first pages apart, without keeping them.
checksum <- function(page) {
  bytes <- as.integer(charToRaw(json(page)))
  sum(bytes * (seq_along(bytes) %% 9973 + 1))
}

# The value of a handle, or NULL.
find_value <- function(at) {
  is_it <- function(x) is_table(x) && address(x) == at
  for (name in ls(globalenv(), all.names = TRUE))
    if (is_plain(name, globalenv()) && is_it(x <- get(name, envir = globalenv(), inherits = FALSE))) return(x)
  if (exists(".Last.value", envir = baseenv(), inherits = FALSE) && is_it(x <- get(".Last.value", envir = baseenv()))) x
}

is_table <- function(x) is.data.frame(x) || (is.matrix(x) && is.atomic(x) && !is.object(x))

# Answers a query: JSON, or character() if the table is no longer there.
page <- function(text) {
  asked <- fields(text)
  entry <- known[[asked$handle]]
  x <- if (!is.null(entry)) find_value(entry$at)
  if (is.null(x)) return(character())
  changed <- checksum(part(x, seq_len(min(FIRST, nrow(x))), FIRST_BYTES)) != entry$sum
  if (changed && !inherits(x, "data.table")) return(character())  # another value has the address now
  from <- if (is.null(asked$from)) 0 else asked$from
  n <- min(asked$count, MAX_ROWS)
  rows <- NULL
  note <- character()
  unsorted <- FALSE
  looks <- !is.null(asked$column) || (!is.null(asked$find) && nzchar(asked$find))
  if (looks && nrow(x) > MAX_SORTED) {
    note <- sprintf("A table of more than %s rows is neither sorted nor searched.", grouped(MAX_SORTED))
    unsorted <- !is.null(asked$column)
  } else {
    if (!is.null(asked$find) && nzchar(asked$find)) {
      found <- find_rows(x, asked$find)
      rows <- found$rows
      if (found$left > 0L) note <- sprintf("%d column%s of other types %s not searched.", found$left, if (found$left == 1L) "" else "s", if (found$left == 1L) "was" else "were")
    }
    if (!is.null(asked$column) && asked$column < ncol(x)) {
      sorted <- sort_rows(x, asked$column + 1, isTRUE(asked$descending), rows)
      unsorted <- is.character(sorted)
      if (unsorted) note <- c(sprintf("The column is not sorted: %s.", sorted), note) else rows <- sorted
    }
  }
  matched <- if (is.null(rows)) nrow(x) else length(rows)
  at <- from + seq_len(max(0, min(n, matched - from)))
  answer <- part(x, if (is.null(rows)) at else rows[at], MAX_BYTES)
  json(c(answer, list(from = number(from), matched = number(matched)), if (changed) list(changed = "true"),
    if (unsorted) list(unsorted = "true"), if (length(note)) list(note = quoted(paste(note, collapse = " "))), list(handle = quoted(asked$handle))))
}

# ---------------------------------------------------------------- rows as text

# Some rows as a list of JSON texts.
part <- function(x, at, most) {
  shown <- seq_len(min(ncol(x), MAX_COLUMNS))
  cells <- lapply(shown, function(j) as_text(cells_of(x, at, j)))
  index <- row_names(x, at)
  names <- column_names(x, shown)
  cut <- sum(0L, vapply(cells, function(column) sum(is_long(column, MAX_CELL)), 0L), is_long(index, MAX_CELL), is_long(names, MAX_NAME))
  columns <- vapply(shown, function(j) {
    column <- if (is.data.frame(x)) .subset2(x, j) else x[0L, j]
    paste0('{"name":', quoted(shorten(names[j], MAX_NAME)), ',"type":', quoted(shorten(type_of(column), MAX_TYPE)), if (is_number(column)) ',"align":"right"', "}")
  }, "")
  cells <- lapply(cells, function(column) quoted(shorten(column, MAX_CELL)))
  index <- quoted(shorten(index, MAX_CELL))
  rows <- if (length(cells)) paste0("[", do.call(paste, c(cells, sep = ",")), "]") else rep("[]", length(at))
  fits <- cumsum(nchar(rows, "bytes") + nchar(index, "bytes") + 2) <= most - sum(nchar(columns, "bytes")) - 1000
  rows <- rows[fits]
  index <- index[fits]
  c(list(v = "1", columns = array_of(columns), rows = array_of(rows), total = array_of(c(number(nrow(x)), number(ncol(x))))),
    if (length(index)) list(index = array_of(index)), if (cut > 0L) list(cut = number(cut)))
}

cells_of <- function(x, at, j) {
  if (!is.data.frame(x)) return(x[at, j])
  column <- .subset2(x, j)
  if (length(dim(column)) == 2L) column[at, , drop = FALSE] else column[at]
}

row_names <- function(x, at)
  as.character(if (is.data.frame(x)) attr(x, "row.names")[at] else if (is.null(rownames(x))) sprintf("[%d,]", at) else rownames(x)[at])

column_names <- function(x, shown) {
  names <- if (is.data.frame(x)) names(x)[shown] else if (is.null(colnames(x))) sprintf("[,%d]", shown) else colnames(x)[shown]
  names <- as.character(names)
  if (length(names) < length(shown)) names <- rep("", length(shown))
  names
}

type_of <- function(column) if (is.object(column)) class(column)[1L] else if (length(dim(column)) == 2L) "matrix" else typeof(column)

is_number <- function(column) is.numeric(column) && is.null(dim(column))

as_text <- function(column) {
  text <- if (is.list(column) && !is.data.frame(column)) vapply(column, function(v) if (is.null(v)) "NULL" else paste(class(v)[1L], length(v)), "")
    else if (is.factor(column) || is.character(column) && !is.object(column)) as.character(column)
    else if (is.double(column) && !is.object(column) && is.null(dim(column))) ifelse(is.nan(column), "NaN", ifelse(is.na(column), "NA", formatC(column, digits = 15L, width = 1L, format = "g")))
    else if (inherits(column, "POSIXct")) format(column, usetz = TRUE)
    else format(column)
  if (is.matrix(text) || is.data.frame(text)) text <- do.call(paste, as.data.frame(text))
  text <- valid(text)
  text[is.na(text)] <- "NA"
  if (is_text(column)) text else trimws(text)
}

# Text in UTF-8, with other bytes as <ff>. R 4.6 fails for them in most functions.
valid <- function(text) {
  text <- enc2utf8(as.character(text))
  bad <- !validUTF8(text)
  text[bad] <- iconv(text[bad], "UTF-8", "UTF-8", sub = "byte")
  text
}

is_text <- function(column) is.factor(column) || is.character(column)

is_long <- function(text, most) {
  long <- nchar(text, allowNA = TRUE) > most
  !is.na(long) & long
}

shorten <- function(text, most) {
  long <- is_long(text, most)
  text[long] <- paste0(substr(text[long], 1L, most), "\u2026")
  text
}

# ---------------------------------------------------------------- order

# The numbers of the rows in order, or a text that says why they are not sorted.
sort_rows <- function(x, j, descending, rows) {
  column <- if (is.data.frame(x)) .subset2(x, j) else x[, j]
  if (!is.null(rows)) column <- column[rows]
  if (!is.atomic(column) || is.complex(column) || length(dim(column)) == 2L) return("its values have no order")
  if (is.character(column) && length(column) > MAX_TEXTS) return(sprintf("it has more than %s texts", grouped(MAX_TEXTS)))
  places <- tryCatch(order(column, decreasing = descending, na.last = TRUE, method = "radix"), error = function(e) NULL)
  if (is.null(places)) return("its values have no order")
  if (is.null(rows)) places else rows[places]
}

# The numbers of the rows that have the text, and of the columns that were not searched.
find_rows <- function(x, text) {
  has <- logical(nrow(x))
  left <- 0L
  for (j in seq_len(min(ncol(x), MAX_COLUMNS))) {
    found <- tryCatch(matches(if (is.data.frame(x)) .subset2(x, j) else x[, j], text), error = function(e) NULL)
    if (is.null(found)) left <- left + 1L else has <- has | (found & !is.na(found))
  }
  list(rows = which(has), left = left)
}

matches <- function(column, text) {
  if (!is.null(dim(column))) return(NULL)
  if (is.factor(column)) return(contains(levels(column), text)[as.integer(column)])
  if (inherits(column, c("Date", "POSIXct"))) return(within_time(column, text))
  if (is.object(column)) return(NULL)
  if (is.character(column)) return(contains(column, text))
  if (is.logical(column)) return(if (tolower(text) %in% c("true", "false")) column == (tolower(text) == "true") else logical(length(column)))
  if (!is.numeric(column)) return(NULL)
  value <- suppressWarnings(as.numeric(text))
  if (is.na(value)) logical(length(column)) else column == value
}

contains <- function(texts, text)
  grepl(paste0("\\Q", gsub("\\E", "\\E\\\\E\\Q", text, fixed = TRUE), "\\E"), texts, perl = TRUE, ignore.case = TRUE)

# Compares times with a year, a month or a day.
within_time <- function(column, text) {
  if (!grepl("^[0-9]{4}(-[0-9]{2}){0,2}$", text)) return(logical(length(column)))
  first <- as.Date(paste0(text, substring("-01-01", nchar(text) - 3L)))
  last <- seq(first, by = c("year", "month", "day")[(nchar(text) - 1L) / 3L], length.out = 2L)[2L]
  if (inherits(column, "POSIXct")) {
    zone <- if (is.null(attr(column, "tzone"))) "" else attr(column, "tzone")[1L]
    first <- as.POSIXct(format(first), tz = zone)
    last <- as.POSIXct(format(last), tz = zone)
  }
  column >= first & column < last
}

# ---------------------------------------------------------------- JSON

json <- function(parts) paste0("{", paste0('"', names(parts), '":', unlist(parts), collapse = ","), "}")

array_of <- function(values) paste0("[", paste(values, collapse = ","), "]")

number <- function(n) format(n, scientific = FALSE, trim = TRUE)

grouped <- function(n) format(n, scientific = FALSE, big.mark = " ")

quoted <- function(text) {
  text <- gsub('"', '\\"', gsub("\\", "\\\\", text, fixed = TRUE), fixed = TRUE)
  for (code in if (any(grepl("[\001-\037]", text))) 1:31)
    text <- gsub(intToUtf8(code), sprintf("\\u%04x", code), text, fixed = TRUE)
  paste0('"', text, '"', recycle0 = TRUE)
}

# The scalar fields of a query by name, also those of the object in it.
fields <- function(text) {
  token <- regmatches(text, gregexpr('"(?:[^"\\\\]|\\\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}:,]', text, perl = TRUE))[[1L]]
  all <- list()
  for (i in which(token == ":")) {
    value <- token[i + 1L]
    if (value != "{") all[[plain(token[i - 1L])]] <- if (startsWith(value, '"')) plain(value) else if (value %in% c("true", "false")) value == "true" else if (value != "null") as.numeric(value)
  }
  all
}

# The text of a JSON string, which differs from one of R only by its \/ and its pairs of surrogates.
plain <- function(string) eval(parse(text = gsub("(?<!\\\\)((?:\\\\\\\\)*)\\\\/", "\\1/", string, perl = TRUE), keep.source = FALSE, encoding = "UTF-8"))

environment()
