package r

const (
	utf8Locale   = ""
	unsupported  = "r: there is no R worker for Windows yet; run repl inside WSL"
	howToInstall = ""
)

func systemPlaces() places { return places{} }
