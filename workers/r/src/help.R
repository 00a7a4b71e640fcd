# Help and other documents, shown as text in the output, because a session has no browser, editor or
# viewer.

MAX_DOCUMENT <- 4e6  # bytes of a document that are read, a second or two of work; rendering has its own bound

no_editor <- function()
  stop("a session has no editor; change the object or the file with R code, or set options(editor = ) to an R function", call. = FALSE)

# Shows files one after the other in a pager, as R does at a terminal.
in_pager <- function(pager) {
  force(pager)
  function(files, header = rep("", length(files)), title = NULL, delete.file = FALSE) {
    whole <- tempfile("page")
    on.exit(unlink(whole))
    for (i in seq_along(files)) {
      if (nzchar(header[i])) cat(header[i], "\n\n", sep = "", file = whole, append = TRUE)
      file.append(whole, files[i])
    }
    if (delete.file) unlink(files)
    system(paste(pager, "<", shQuote(whole)))
    invisible()
  }
}

# View: shows the size of a table and its first rows, or the structure of any other value.
view <- function(x, title) {
  if (length(dim(x)) != 2L) {
    cat(title, "\n", sep = "")
    return(invisible(utils::str(x)))
  }
  size <- dim(x)
  shown <- pmin(size, MAX_VIEW)
  count <- function(n) paste(sprintf("%.0f %s%s", as.numeric(n), c("row", "column"), ifelse(n == 1L, "", "s")), collapse = ", ")
  cat(title, ": ", count(size), if (any(shown < size)) paste0("; the first ", count(shown)), "\n", sep = "")
  if (is.data.frame(x)) x <- as.data.frame(x)  # some packages' data frames truncate by their own rules
  print(x[seq_len(shown[1L]), seq_len(shown[2L]), drop = FALSE])
  invisible()
}

MAX_VIEW <- 20L  # rows, and columns

# ---------------------------------------------------------------- browseURL

# Shows a local document, or only the URL of anything else.
browse <- function(url) {
  page <- local_page(url)
  if (is.null(page)) note("a session has no browser: ", url) else show_page(page, url)
  invisible()
}

# A document on this machine: list(file or text, fragment, type), or NULL.
local_page <- function(url) {
  fragment <- if (grepl("#", url, fixed = TRUE)) utils::URLdecode(sub("^[^#]*#", "", url)) else ""
  address <- sub("#.*$", "", url)
  if (grepl("^file://", address)) {
    file <- utils::URLdecode(sub("^file://(localhost)?", "", address))
    return(list(file = file, fragment = fragment, type = type_of(file)))
  }
  if (!grepl("^[A-Za-z][A-Za-z0-9+.-]+:", address)) {
    if (!file.exists(address)) return(NULL)
    return(list(file = address, fragment = fragment, type = type_of(address)))
  }
  page <- help_page(address)
  if (!is.null(page)) page$fragment <- fragment
  page
}

type_of <- function(file)
  switch(tolower(sub("^.*\\.", "", basename(file))), html = , htm = , xhtml = "html", pdf = "pdf",
    txt = , md = , r = , rmd = , rnw = , qmd = , rd = , bib = , csv = , log = , json = , yml = , yaml = "text",
    if (grepl(".", basename(file), fixed = TRUE)) "other" else "text")

# The answer of R's own help server. It is called directly because it runs in this process, which
# could not answer its own request.
help_page <- function(address) {
  port <- get0("httpdPort", asNamespace("tools"))
  answer <- get0("httpd", asNamespace("tools"))
  if (is.null(port) || is.null(answer) || port() <= 0L) return(NULL)
  here <- sprintf("^http://(127\\.0\\.0\\.1|localhost):%d", port())
  if (!grepl(here, address)) return(NULL)
  path <- sub(here, "", address)
  query <- if (grepl("?", path, fixed = TRUE)) {
    pairs <- strsplit(strsplit(sub("^[^?]*\\?", "", path), "&", fixed = TRUE)[[1L]], "=", fixed = TRUE)
    decode <- function(x) utils::URLdecode(gsub("+", " ", x, fixed = TRUE))
    structure(vapply(pairs, function(p) if (length(p) > 1L) decode(p[2L]) else "", ""), names = vapply(pairs, function(p) decode(p[1L]), ""))
  }
  page <- answer(utils::URLdecode(sub("\\?.*$", "", path)), query)
  if (is.character(page)) page <- list(payload = page)
  if (!is.null(page$file)) return(list(file = page$file, type = if (grepl("html", page[["content-type"]])) "html" else type_of(page$file)))
  list(text = page[[1L]], type = if (is.null(page[["content-type"]]) || grepl("html", page[["content-type"]])) "html" else "text")
}

show_page <- function(page, url) {
  file <- page$file
  if (!is.null(file)) {
    if (dir.exists(file)) return(note("a directory: ", file))
    if (!file.exists(file)) return(note("no such file: ", file))
    if (page$type == "pdf") return(show_pdf(file))
    if (page$type == "other" || file.size(file) > MAX_DOCUMENT) return(note("not shown as text: ", file))
    page$text <- read_text(file)
  }
  lines <- if (page$type == "html") text_of_html(page$text, page$fragment) else page$text
  if (any(nzchar(lines))) writeLines(lines) else note("nothing to show as text: ", url)
}

show_pdf <- function(file) {
  if (!nzchar(Sys.which("pdftotext"))) return(note("a PDF, not shown as text: ", file))
  text <- suppressWarnings(system2("pdftotext", c("-layout", "-enc", "UTF-8", shQuote(file), "-"), stdout = TRUE, stderr = FALSE))
  Encoding(text) <- "UTF-8"
  writeLines(gsub("\f", "\n", text, fixed = TRUE))
}

read_text <- function(file) {
  lines <- readLines(file, warn = FALSE, skipNul = TRUE)
  if (!all(validUTF8(lines))) return(iconv(lines, "latin1", "UTF-8"))
  Encoding(lines) <- "UTF-8"
  lines
}

# ---------------------------------------------------------------- vignettes

print_vignette <- function(x) {
  document <- if (nzchar(x$PDF)) file.path(x$Dir, "doc", x$PDF) else ""
  source <- file.path(x$Dir, "doc", x$File)
  if (type_of(document) == "pdf" && !nzchar(Sys.which("pdftotext")) && file.exists(source)) document <- source
  if (!nzchar(document)) document <- source
  show_page(list(file = document, type = if (identical(document, source)) "text" else type_of(document), fragment = ""), document)
  invisible(x)
}

print_vignettes <- function(x) {
  if (!length(x)) note("no vignettes")
  for (package in names(x)) {
    rows <- x[[package]]
    if (!length(rows)) next
    names <- sub("\\.[^.]*$", "", rows[, "File"])
    writeLines(c(sprintf("Vignettes in package '%s':", package), sprintf("  %s  %s", format(names), rows[, "Title"]), ""))
  }
  if (length(x)) writeLines("vignette(\"NAME\", package = \"PACKAGE\") shows one.")
  invisible(x)
}

# ---------------------------------------------------------------- HTML

# The text of a page, or of the section that a fragment names. Every "<" starts a piece of the
# page: a tag and the text after it.
text_of_html <- function(html, fragment = "") {
  html <- gsub("data:[A-Za-z0-9+/=;,.-]{100,}+", "", paste(html, collapse = "\n"), perl = TRUE)
  html <- gsub("(?s)<!--.*?-->", "", html, perl = TRUE)
  pieces <- strsplit(html, "<", fixed = TRUE)[[1L]]
  length_of_tag <- attr(regexpr("^[/!A-Za-z](?:[^\"'>]++|\"[^\"]*+\"|'[^']*+')*+>", pieces, perl = TRUE), "match.length")
  is_tag <- length_of_tag > 0L
  tag <- ifelse(is_tag, substr(pieces, 1L, length_of_tag - 1L), "")
  text <- ifelse(is_tag, substring(pieces, length_of_tag + 1L), paste0(c("", rep("<", length(pieces) - 1L))[seq_along(pieces)], pieces))
  name <- tolower(sub("^(/?[A-Za-z][A-Za-z0-9]*).*$", "\\1", gsub("[[:space:]]+", " ", substr(tag, 1L, 32L))))

  depth <- function(element) cumsum(name == element) - cumsum(name == paste0("/", element)) > 0L
  shown <- !(depth("script") | depth("style") | depth("head") | depth("svg") | depth("template"))
  pre <- depth("pre")

  text <- decode_entities(ifelse(pre, gsub(" ", "\001", text, fixed = TRUE), gsub("[[:space:]]+", " ", text)))
  text[!shown] <- ""
  level <- match(name, paste0("h", 1:6))
  before <- character(length(name))
  before[sub("^/", "", name) %in% c("address", "article", "aside", "br", "caption", "dd", "div", "dl", "dt", "figure", "footer", "form", "header",
    "hr", "li", "main", "nav", "section", "tr")] <- "\n"
  before[sub("^/", "", name) %in% c("blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "ol", "p", "pre", "table", "ul")] <- "\n\n"
  before[name == "li"] <- "\n- "
  before[name %in% c("td", "th")] <- "\t"
  before[!is.na(level)] <- paste0("\n\n", strrep("#", level[!is.na(level)]), " ")
  image <- name == "img"
  before[image] <- decode_entities(attribute(tag[image], "alt"))
  before <- link_targets(tag, name, before)
  before[!shown] <- ""

  part <- section(tag, level, fragment)
  whole <- paste0(before[part], text[part], collapse = "")
  whole <- gsub("[ \t]*\n[ \t]*", "\n", whole)
  whole <- gsub("(?m)^(-|#+)\n+", "\\1 ", whole, perl = TRUE)
  whole <- gsub("\n{3,}", "\n\n", whole)
  whole <- gsub("\001", " ", whole, fixed = TRUE)
  whole <- gsub("^\n+|[[:space:]]+$", "", whole)
  strsplit(whole, "\n", fixed = TRUE)[[1L]]
}

# The value of an attribute in each tag, or "" if it is missing.
attribute <- function(tag, name) {
  pattern <- paste0("(?is)^.*?\\s", name, "\\s*=\\s*(?:\"([^\"]*)\"|'([^']*)'|([^\\s>]+)).*$")
  ifelse(grepl(pattern, tag, perl = TRUE), gsub(pattern, "\\1\\2\\3", tag, perl = TRUE), "")
}

# Adds the URLs of external links after their texts.
link_targets <- function(tag, name, before) {
  opening <- which(name == "a")
  target <- decode_entities(attribute(tag[opening], "href"))
  leads_out <- grepl("^(https?|ftp|mailto):", target)
  closing <- which(name == "/a")
  end <- closing[findInterval(opening[leads_out], closing) + 1L]
  known <- !is.na(end)
  before[end[known]] <- paste0(before[end[known]], " <", target[leads_out][known], ">")
  before
}

# The pieces of a section, from its anchor to the next heading of its level.
section <- function(tag, level, fragment) {
  all <- seq_along(tag)
  if (!nzchar(fragment)) return(all)
  start <- which(attribute(tag, "id") == fragment | attribute(tag, "name") == fragment)[1L]
  if (is.na(start)) return(all)
  if (start > 1L && is.na(level[start]) && !is.na(level[start - 1L])) start <- start - 1L  # an anchor within its heading
  headings <- which(!is.na(level) & all >= start)
  end <- headings[-1L][level[headings[-1L]] <= level[headings[1L]]][1L]
  if (is.na(end)) all[all >= start] else start:(end - 1L)
}

ENTITIES <- c(lt = "<", gt = ">", quot = "\"", apos = "'", nbsp = " ", ndash = "\u2013", mdash = "\u2014", lsquo = "\u2018", rsquo = "\u2019",
  ldquo = "\u201c", rdquo = "\u201d", hellip = "...", copy = "\u00a9", reg = "\u00ae", trade = "\u2122", times = "\u00d7", middot = "\u00b7",
  bull = "*", rarr = "->", larr = "<-", le = "\u2264", ge = "\u2265", ne = "\u2260", plusmn = "\u00b1", sum = "\u2211", infin = "\u221e",
  alpha = "\u03b1", beta = "\u03b2", gamma = "\u03b3", delta = "\u03b4", epsilon = "\u03b5", lambda = "\u03bb", mu = "\u03bc", pi = "\u03c0",
  rho = "\u03c1", sigma = "\u03c3", tau = "\u03c4", phi = "\u03c6", chi = "\u03c7", omega = "\u03c9", theta = "\u03b8",
  eacute = "\u00e9", egrave = "\u00e8", agrave = "\u00e0", ccedil = "\u00e7", auml = "\u00e4", ouml = "\u00f6", uuml = "\u00fc", szlig = "\u00df")

decode_entities <- function(text) {
  some <- grep("&", text, fixed = TRUE)
  if (length(some)) text[some] <- decode(text[some])
  text
}

decode <- function(text) {
  found <- unique(unlist(regmatches(text, gregexpr("&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]+);", text))))
  for (entity in setdiff(found, "&amp;")) {
    name <- substr(entity, 2L, nchar(entity) - 1L)
    code <- if (grepl("^#[xX]", name)) strtoi(substring(name, 3L), 16L) else if (startsWith(name, "#")) strtoi(substring(name, 2L), 10L)
    char <- if (is.null(code)) ENTITIES[name] else if (!is.na(code) && code > 31L && code < 1114112L) intToUtf8(code) else NA
    if (!is.na(char)) text <- gsub(entity, char, text, fixed = TRUE)
  }
  gsub("&amp;", "&", text, fixed = TRUE)
}

list(browse = browse, in_pager = in_pager, no_editor = no_editor, view = view, print_vignette = print_vignette, print_vignettes = print_vignettes)
