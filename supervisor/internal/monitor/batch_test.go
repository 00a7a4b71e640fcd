package monitor

import "testing"

func TestBatchLine(t *testing.T) {
	for arg, want := range map[string]string{
		"a":               `"a"`,
		"":                `""`,
		"b c":             `"b c"`,
		"https://h/?a&b":  `"https://h/?a&b"`,
		"p|q<r>s^t(u)":    `"p|q<r>s^t(u)"`,
		`say "hi"`:        `"say ""hi"""`,
		`a"&echo owned&"`: `"a""&echo owned&"""`,
		"%PATH%":          `"%%cd:~,%PATH%%cd:~,%"`,
		`b c\`:            `"b c\\"`,
		`a\"b`:            `"a\\""b"`,
		"größe 😀":         `"größe 😀"`,
	} {
		got, err := batchLine(`C:\w\cmd.exe`, `C:\x y\z.cmd`, []string{arg})
		if want := `"C:\w\cmd.exe" /e:on /v:off /d /s /c ""C:\x y\z.cmd" ` + want + `"`; got != want || err != nil {
			t.Errorf("%q: got %s, %v; want %s", arg, got, err, want)
		}
	}
	for _, arg := range []string{"a\nb", "a\r"} {
		if got, err := batchLine("cmd", "x.bat", []string{arg}); err == nil {
			t.Errorf("%q: got %s, want an error", arg, got)
		}
	}
}

func TestIsBatch(t *testing.T) {
	for program, want := range map[string]bool{
		`C:\a\npx.CMD`: true, `C:\a\x.bat`: true, `C:\a.bat\x.exe`: false, `C:\a.cmd\x`: false, "": false,
	} {
		if got := isBatch(program); got != want {
			t.Errorf("%q: got %v", program, got)
		}
	}
}
