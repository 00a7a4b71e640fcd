# Information about the name at the cursor: its usage, and its help page as text.

MAX_TEXT <- 32000L

# The text, or character().
inspect <- function(text, cursor) {
  text <- enc2utf8(text)
  name <- name_at(text, cursor)
  if (!nzchar(name)) return(character())
  parts <- strsplit(name, ":::?")[[1L]]
  package <- if (length(parts) == 2L) parts[1L]
  topic <- parts[length(parts)]
  lines <- c(about(topic, package), page(topic, package))
  if (length(lines)) substr(paste(lines, collapse = "\n"), 1L, MAX_TEXT) else character()
}

# The name at the cursor. After f( it is f.
name_at <- function(text, cursor) {
  bytes <- charToRaw(text)
  before <- rawToChar(bytes[seq_len(min(cursor, length(bytes)))])
  after <- rawToChar(bytes[-seq_len(min(cursor, length(bytes)))])
  Encoding(before) <- Encoding(after) <- "UTF-8"
  word <- "[[:alnum:]._]"
  left <- regmatches(before, regexpr(paste0("(", word, "+:::?)?", word, "*$"), before))
  right <- regmatches(after, regexpr(paste0("^", word, "*"), after))
  name <- paste0(left, right)
  if (!nzchar(name)) name <- sub("^.*?([[:alnum:]._]+(:::?[[:alnum:]._]+)?)\\([^()]*$", "\\1", before, perl = TRUE)
  if (grepl("^[[:alnum:]._]+(:::?[[:alnum:]._]+)?$", name)) name else ""
}

# No promise, active binding or method is evaluated.
about <- function(name, package) {
  where <- if (is.null(package)) where_is(name) else if (isNamespaceLoaded(package)) asNamespace(package)
  if (is.null(where) || !exists(name, envir = where, inherits = FALSE) || !is_plain(name, where)) return()
  x <- get(name, envir = where, inherits = FALSE)
  if (is.function(x)) {
    if (is.null(args(x))) return()  # `if`
    shown <- deparse(args(x))
    shown <- shown[-length(shown)]
    return(c(paste0("Usage: ", name, sub("^function *", "", paste(trimws(shown), collapse = " "))), ""))
  }
  size <- if (is.environment(x)) length(ls(x, all.names = TRUE)) else if (is.null(attr(x, "dim"))) length(unclass(x)) else paste(attr(x, "dim"), collapse = " x ")
  if (is.data.frame(x)) size <- paste(length(attr(x, "row.names")), "x", length(unclass(x)))
  c(paste0("Class: ", paste(class(x), collapse = ", ")), paste0("Type: ", typeof(x)), paste0("Size: ", size), "")
}

page <- function(topic, package) {
  found <- if (is.null(package)) utils::help((topic), help_type = "text") else utils::help((topic), package = (package), help_type = "text")
  if (!length(found)) return()
  rd <- utils:::.getHelpFile(as.character(found)[1L])
  to <- tempfile()
  on.exit(unlink(to))
  tools::Rd2txt(rd, out = to, options = list(underline_titles = FALSE), outputEncoding = "UTF-8")
  lines <- readLines(to, encoding = "UTF-8")
  gsub("_\b", "", lines)
}

environment()
