//go:build !windows

package redact

import (
	"strings"
	"testing"
)

// The redacted text must still be R code, because the rest of it runs in the session.
func TestRedactProfile(t *testing.T) {
	t.Parallel()
	const token = "ghp_0123456789abcdefghijABCDEFGHIJ"
	for text, want := range map[string]string{
		`options(digits = 7, repos = c(CRAN = "https://cloud.r-project.org"))`:       `options(digits = 7, repos = c(CRAN = "https://cloud.r-project.org"))`,
		`Sys.setenv(GITHUB_PAT = "abc", R_LIBS = "~/R")`:                             `Sys.setenv(GITHUB_PAT = "", R_LIBS = "~/R")`,
		`if (interactive()) { Sys.setenv("API_KEY"='a\'b') }`:                        `if (interactive()) { Sys.setenv("API_KEY"="") }`,
		"  `DB_PASSWORD` <- \"x\"":                                                   "  `DB_PASSWORD` <- \"\"",
		`options(github.token = "x", browser = "firefox")`:                           `options(github.token = "", browser = "firefox")`,
		`login("` + token + `")`:                                                     `login("")`,
		`x <- 1 # don't forget: key = "` + token + `"`:                               `x <- 1 `,
		`options(repos = c(ours = "https://me:secret@cran.example.org"))`:            `options(repos = c(ours = "https://cran.example.org"))`,
		`setHook(packageEvent("tidyverse", "attach"), function(...) cat("hello\n"))`: `setHook(packageEvent("tidyverse", "attach"), function(...) cat("hello\n"))`,
		// assignments of all kinds
		`TOKEN <<- "s3"`:                               `TOKEN <<- ""`,
		`"s3" -> my_token; x <- 1`:                     `"" -> my_token; x <- 1`,
		`paste("s3") ->> my.token`:                     `"" ->> my.token`,
		`"s3" -> a -> token`:                           `"" -> a -> token`,
		`a <- token <- "s3"`:                           `a <- token <- ""`,
		"my_token <-\n  \"s3\"\nx <- 1":                "my_token <-\n  \"\"\nx <- 1",
		"my_token <- # it\n\n  \"s3\"":                 "my_token <- \n\n  \"\"",
		"f(API_KEY\n =\n \"s3\",\n a = \"b\")":         "f(API_KEY\n =\n \"\",\n a = \"b\")",
		`x$token <- "s3"`:                              `x$token <- ""`,
		`x[["api_key"]] <- "s3"`:                       `x[["api_key"]] <- ""`,
		`attr(x, "token") <- "s3"`:                     `attr(x, "token") <- ""`,
		`assign("API_KEY", "s3", envir = globalenv())`: `assign("API_KEY", "", envir = globalenv())`,
		`x <- setNames("s3", "API_KEY")`:               `x <- setNames("", "")`,
		`if (a) token <- "s3" else b <- "t"`:           `if (a) token <- ""`,
		`apiKey = 12345`:                               `apiKey = ""`,
		`options(cache_token = TRUE)`:                  `options(cache_token = TRUE)`,
		`function(password = "s3", x = 1) x`:           `function(password = "", x = 1) x`,
		`c("token" = "s3", "me" = "b")`:                `c("token" = "", "me" = "b")`,
		// values of all kinds
		`API_TOKEN = r"(s3)"`:                                `API_TOKEN = ""`,
		`API_TOKEN = R"--[s3 ]-" ]--"; y <- "b"`:             `API_TOKEN = ""; y <- "b"`,
		`Sys.setenv(API_KEY = paste0("a","b"), X = 1)`:       `Sys.setenv(API_KEY = "", X = 1)`,
		"token <- paste0(\"a\" +\n \"b\") %>%\n f(\"c\")\ny": "token <- \"\"\ny",
		"token <- if (a)\n \"s3\" else\n \"s4\"\ny":          "token <- \"\"\ny",
		"token <- {\n x\n \"s3\"\n}\ny":                      "token <- \"\"\ny",
		"{ if (a)\n token <- f(\"s3\")\n else x(\"b\") }":    "{ if (a)\n token <- \"\" }",
		"get_token <- function() {\n paste(\"s3\") }":        "get_token <- function() {\n paste(\"\") }",
		`census_api_key("s3", install = TRUE)`:               `census_api_key("", install = TRUE)`,
		`pkg::set_token(c("s3", 'b'))`:                       `pkg::set_token(c("", ""))`,
		`x <- Sys.getenv("GITHUB_PAT")`:                      `x <- Sys.getenv("GITHUB_PAT")`,
		`h <- c(Authorization = "x", 'X-Api-Key' = "y")`:     `h <- c(Authorization = "", 'X-Api-Key' = "")`,
		`h <- "X-Api-Key: s3"`:                               `h <- ""`,
		`eval(parse(text = "TOKEN <- 's3'"))`:                `eval(parse(text = ""))`,
		"key <- \"-----BEGIN PRIVATE KEY-----\nMIIE\"\ny":    "key <- \"\"\ny",
		`f(r"(Bearer abc)")`:                                 `f("")`,
		`Sys.setenv(http_proxy = "me:s3@proxy:8080")`:        `Sys.setenv(http_proxy = "proxy:8080")`,
		`u <- "https://me:pa'ss@h/x"`:                        `u <- "https://h/x"`,
		// names that only look like secrets
		"if.token.x <- 1\nin_x <- 'a'":      "if.token.x <- \"\"\nin_x <- 'a'",
		`x <- a<-1; y == "token"; z <= 'b'`: `x <- a<-1; y == "token"; z <= 'b'`,
		// text that is not R, and everything after it
		"x <- 1\ny <- f(\"s3\"\nz <- 1":         "x <- 1\n",
		"x <- 1\ny <- \"s3\nz <- 1":             "x <- 1\n",
		"x <- 1\nf({\n a(])\n})\ny <- 1":        "x <- 1\n",
		"x <- 1\ny <- r\"(s3)\nz":               "x <- 1\n",
		"x <- 1\n)\ny":                          "x <- 1\n",
		"x <- 1\n" + strings.Repeat("(", 10000): "x <- 1\n",
		"":                                      "",
	} {
		if got := string(Profile([]byte(text))); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// A session gets everything that a program reads in a settings file, without the logins.
func TestRedactSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		plain      func([]byte) []byte
		text, want string
	}{
		"pip, a proxy without a scheme":  {Indexes, "[global]\nproxy = me:s3@proxy:8080\ntimeout = 5\n", "[global]\nproxy = proxy:8080\ntimeout = 5\n"},
		"pip, an apostrophe":             {Indexes, "index-url = https://me:pa'ss@h/simple\n", "index-url = https://h/simple\n"},
		"pip, a quote":                   {Indexes, "index-url = https://me:pa\"ss@h/simple\n", "index-url = https://h/simple\n"},
		"pip, a space":                   {Indexes, "index-url = https://me:pa ss@h/simple\n", "index-url = https://h/simple\n"},
		"pip, two addresses":             {Indexes, "extra-index-url = https://h:80 https://me:x@i/\n\thttps://j@k/\n", "extra-index-url = https://h:80 https://i/\n\thttps://k/\n"},
		"pip, a token in the path":       {Indexes, "index-url = https://dl.example.org/Gk3d1fHxYPV2nLzZ/org/repo/python/simple/\n", "index-url = https://dl.example.org//org/repo/python/simple/\n"},
		"pip, a token at the end":        {Indexes, "find-links = https://h/ghp_0123456789abcdefghijABCDEFGHIJ\n", "find-links = https://h/\n"},
		"pip, a token in a query":        {Indexes, "a = 1\nindex-url = https://h/simple?private_token=s3\nb = 2\n", "a = 1\nb = 2\n"},
		"pip, a value in the next line":  {Indexes, "password =\n  s3\n\ncert = /x\n", "\ncert = /x\n"},
		"pip, nothing secret":            {Indexes, "[global]\nindex-url = https://us-central1-python.pkg.dev/my-project-123456-a1/repo-a/simple\ntrusted-host = h:8080\n# me@h\n", "[global]\nindex-url = https://us-central1-python.pkg.dev/my-project-123456-a1/repo-a/simple\ntrusted-host = h:8080\n# me@h\n"},
		"pip, a project's identifier":    {Indexes, "index-url = https://pkgs.example.org/org/3f2504e0-4f89-11d3-9a0c-0305e82c3301/_packaging/f/pypi/simple/\n", "index-url = https://pkgs.example.org/org/3f2504e0-4f89-11d3-9a0c-0305e82c3301/_packaging/f/pypi/simple/\n"},
		"conda, a token without a slash": {Indexes, "channel_alias: https://h/t/TOKEN\nchannels:\n  - t/me-1/x\n  - defaults\n", "channel_alias: https://h/t/\nchannels:\n  - t//x\n  - defaults\n"},
		"conda, proxies":                 {Indexes, "proxy_servers:\n  http: me:s3@p:80\n  https: 'me:s3@p:80'\n", "proxy_servers:\n  http: p:80\n  https: 'p:80'\n"},
		"conda, a token of another form": {Indexes, "channels:\n  - https://h/0123456789abcdef0123456789abcdef/x\n", "channels:\n  - https://h//x\n"},
		"conda, a secret in a list":      {Indexes, "my_token:\n  - s3\n  - s4\nchannels: [a]\n", "channels: [a]\n"},
		"uv, a proxy":                    {Indexes, "http-proxy = \"me:s3@p\"\n[[index]]\nname = \"x\"\nurl = \"https://me:pa'ss@h/simple\"\n", "http-proxy = \"p\"\n[[index]]\nname = \"x\"\nurl = \"https://h/simple\"\n"},
		"uv, lists":                      {Indexes, "extra-index-url = [\"https://h\",\"https://me:x@i/\"]\n", "extra-index-url = [\"https://h\",\"https://i/\"]\n"},
		"uv, a secret over lines":        {Indexes, "api-key = \"\"\"\ns3\n\"\"\"\noffline = true\n", "offline = true\n"},
		"JSON in one line":               {WithoutLogins, `{"a":"see https://h.org","b":"x@1","c":"https://me:x@h/'"}`, `{"a":"see https://h.org","b":"x@1","c":"https://h/'"}`},
		"JSON with aliases":              {WithoutLogins, `"string-width-cjs": "npm:string-width@^4.2.0"`, `"string-width-cjs": "npm:string-width@^4.2.0"`},
		"git, a header":                  {Repository, "[http \"https://h/\"]\n\textraheader = AUTHORIZATION: basic s3\n[x]\n\textraHeader = any: s3\n\ty = 1\n", "[http \"https://h/\"]\n[x]\n\ty = 1\n"},
		"git, a password":                {Repository, "[remote \"o\"]\n\turl = git@h:o/r.git\n\tproxy = me:s3@p\n[sendemail]\n\tsmtpPass = a \\\nb\n\tx = 1\n", "[remote \"o\"]\n\turl = git@h:o/r.git\n\tproxy = p\n[sendemail]\n\tx = 1\n"},
		"npm, a proxy":                   {Registries, "proxy=me:s3@p:80\n//h/:_password=x\nfund=false\n", "proxy=p:80\nfund=false\n"},
		"R, names with spaces":           {Variables, "DB_PASS = s3\n API_AUTH = s3\nR_LIBS = ~/R\n", "R_LIBS = ~/R\n"},
		"R, a value in quotes":           {Variables, "A = \"Bearer abc\"\nB=${C-2kD8fYx91LmQ0aZr7TtBv4Wn6Ue3}\nR_LIBS_USER=${R_LIBS_USER:-'%p/x'}\n", "R_LIBS_USER=${R_LIBS_USER:-'%p/x'}\n"},
		"R, a proxy":                     {Variables, "http_proxy=me:s3@p:80\n", "http_proxy=p:80\n"},
		"R, an apostrophe":               {Variables, "DB_PASS=it's\nX=1\n", "X=1\n"},
		"R, a key over lines":            {Variables, "A_KEY=\"-----BEGIN PRIVATE KEY-----\nMIIE\nabc==\n-----END PRIVATE KEY-----\"\n\n# x\nX=1\n", "\n# x\nX=1\n"},
		"a script, a second variable":    {Script, "export A=1 B_TOKEN=s3\ncd x; C_PASSWORD=y run\nexport PLAIN=1\n", "export PLAIN=1\n"},
		"a script, a key over lines":     {Script, "export A_KEY=\"a\n b'\\\"\n\"\nexport B_KEY='x\ny'\nexport C_KEY=a\\\nb\nexport PLAIN=1\n", "export PLAIN=1\n"},
		"a script, a prompt":             {Script, "PS1=\"${debian_chroot:+($debian_chroot)}\\u@\\h:\\w$ \"\n", "PS1=\"${debian_chroot:+($debian_chroot)}\\u@\\h:\\w$ \"\n"},
		"variables of conda, a proxy":    {CondaState, `{"env_vars":{"http_proxy":"me:s3@p","X":"1"}}`, `{"env_vars":{"X":"1"}}`},
	} {
		if got := string(c.plain([]byte(c.text))); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
