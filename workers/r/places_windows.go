package r

const (
	unsupported  = "r: there is no R worker for Windows yet; run repl inside WSL"
	howToInstall = ""
)

func systemPlaces() places { return places{} }
