# Tests on a real Windows what Wine cannot show, and writes a report:
#
#     powershell -ExecutionPolicy Bypass -File scripts\windows-check.ps1 [-Report FILE] [-Quick]
#
# It needs a clone, Go, Python 3.8 or newer and R 4.2 or newer, and takes about ten
# minutes; -Quick leaves out the Go tests. It starts its own sessions, and changes only
# a temporary directory and the report. It exits with 1 if something failed.
param(
    [string]$Report = (Join-Path (Get-Location) "windows-check-$(Get-Date -Format yyyyMMdd-HHmmss).txt"),
    [switch]$Quick
)
$ErrorActionPreference = 'Continue'
$tree = Split-Path $PSScriptRoot
$scratch = Join-Path ([IO.Path]::GetTempPath()) ("turnstone gr$([char]0xF6)$([char]0xDF)e " + [guid]::NewGuid().ToString('N').Substring(0, 8)) # with a space and non-ASCII letters
New-Item -ItemType Directory -Force $scratch | Out-Null
$repl = Join-Path $scratch 'repl.exe'
$failed = New-Object System.Collections.Generic.List[string]
[Console]::OutputEncoding = [Text.Encoding]::UTF8
$OutputEncoding = [Text.Encoding]::UTF8

function Say($text) {
    $text | Out-Host
    Add-Content -Path $Report -Value $text -Encoding UTF8
}

# Step runs a program and records its output. It fails if the exit status is not 0.
function Step($name, [scriptblock]$run) {
    Say "`n=== $name"
    $began = Get-Date
    $global:LASTEXITCODE = 0
    $text = (& $run 2>&1 | ForEach-Object { "$_" }) -join "`n"
    Say $text
    if ($LASTEXITCODE -ne 0) { $failed.Add($name) }
    Say ("=== {0}: status {1}, {2:n1} s" -f $name, $LASTEXITCODE, ((Get-Date) - $began).TotalSeconds)
}

# Expect runs code in a new session of R or Python, and searches its output for a text.
function Expect($name, $language, $code, $want, $errorsToo = $true) {
    $file = Join-Path $scratch 'code.txt'
    [IO.File]::WriteAllText($file, $code, (New-Object Text.UTF8Encoding $false))
    $got = if ($errorsToo) { Get-Content -Raw -Encoding UTF8 $file | & $repl --lang $language 2>&1 | ForEach-Object { "$_" } } else { Get-Content -Raw -Encoding UTF8 $file | & $repl --lang $language }
    $got = ($got -join "`n")
    if ($got.Contains($want)) { Say "ok      $name" } else {
        $failed.Add($name)
        Say "FAILED  ${name}: want '$want', got:`n$got"
    }
}

Set-Content -Path $Report -Value "windows-check, $(Get-Date -Format o)" -Encoding UTF8
Push-Location $tree
try {
    $system = Get-CimInstance Win32_OperatingSystem
    Say "$($system.Caption) $($system.Version), $env:PROCESSOR_ARCHITECTURE, code pages $([Text.Encoding]::Default.CodePage) and $((Get-Culture).TextInfo.OEMCodePage)"
    Say "commit $(git rev-parse --short HEAD), $(go version)"
    Say "antivirus: $((Get-CimInstance -Namespace root/SecurityCenter2 -ClassName AntiVirusProduct -ErrorAction SilentlyContinue).displayName -join ', ')"
    Step 'build' { go build -o $repl ./cmd/repl }
    Step 'doctor' { & $repl doctor }

    Say "`n=== R, what Wine cannot show"
    Expect 'text is UTF-8 by itself' r "l10n_info()[['UTF-8']]; nchar('gr$([char]0xF6)$([char]0xDF)e')" "[1] TRUE`n[1] 5"
    Expect 'names beyond ASCII' r "gr$([char]0xF6)$([char]0xDF)e <- 3; gr$([char]0xF6)$([char]0xDF)e + 1" '[1] 4'
    Expect 'a library that nobody has signed is loaded' r "is.loaded('turnstone_start')" '[1] TRUE'
    Expect 'cairo' r "capabilities('cairo')" '[1] TRUE'
    Expect 'children between R''s text, 50 times' r "for (i in 1:50) { cat('<A', i, '>\n', sep = ''); shell(paste0('echo B', i)); cat('<C', i, '>\n', sep = '') }; cat('end\n')" 'end'
    Expect 'a question for a file, not a window' r "x <- file.choose()`na b.csv`nx" 'a b.csv'
    Expect 'a list, not a window' r "select.list(c('a', 'b'), graphics = TRUE)`n2" '"b"'
    Expect 'a dialog, not a window' r "winDialog('yesno', 'Go?')`nn" 'NO'
    Expect 'the number of processors' r "is.numeric(parallel::detectCores())" '[1] TRUE'
    Expect 'a cluster' r "cl <- parallel::makeCluster(2); unlist(parallel::clusterApply(cl, 1:2, function(i) i * 2)); parallel::stopCluster(cl)" '[1] 2 4'
    Expect 'the C stack is R''s own' r "Cstack_info()[['size']] > 1e7; options(expressions = 5e5); f <- function(n) f(n + 1); tryCatch(f(1), error = function(e) 'caught')" '"caught"'
    Expect 'the environment is clean' r "invisible(system('cmd /c set'))`ncat('done\n')" 'done'
    Expect 'R_MAX_VSIZE stands' r "mem.maxVSize() > 0" '[1] TRUE'
    Expect 'a binary package' r "options(repos = 'https://cloud.r-project.org'); d <- tempfile(); dir.create(d); install.packages('R6', lib = d, quiet = TRUE); library(R6, lib.loc = d); 'there'" '"there"'
    Expect 'the pager' r "?mean" 'Arithmetic Mean'
    Say "`n=== Python, what Wine cannot show"
    Expect 'text is UTF-8' python "print('gr$([char]0xF6)$([char]0xDF)e')" "gr$([char]0xF6)$([char]0xDF)e"
    Expect 'a child meets the end of the input' python "import subprocess; print([subprocess.call(c, shell=True) for c in ('sort', 'pause >nul', 'more')])" '[0, 0, 0]'
    Expect 'a child''s bytes' python "import subprocess, sys; _ = subprocess.run([sys.executable, '-c', 'import sys; sys.stdout.write(chr(48) * 2000 + chr(9) + chr(49))'])" ('0' * 2000 + "`t1")
    Expect 'a handled exception is not shown' python "import ctypes`ntry: ctypes.string_at(8)`nexcept OSError: print('handled', end='.')`n`nprint('end')" 'handled.end'
    Expect 'a crash is shown' python "import faulthandler; faulthandler._raise_exception(0xC0000005)" 'Windows fatal exception'
    Expect 'children between, 50 times' python "import os`nfor i in range(50): print('<A%d>' % i, flush=True); os.system('echo B%d' % i)`n`nprint('end')" 'end'

    Step 'R that is named by --with' { & $repl --lang r --with R6 -e 'packageVersion("R6")' }
    if (-not $Quick) {
        Step 'tests' { go test -count=1 -timeout 20m ./ipc ./timeline/... ./workers/... ./session/... ./supervisor/... ./tests/r ./tests/python ./internal/namedpipe ./client }
        $env:TURNSTONE_TEST_REPL = $repl
        Step 'tests of the command' { go test -count=1 -timeout 20m ./cmd/... ./tests/e2e }
        Step 'R three times' { go test -count=3 -timeout 30m ./tests/r }
        Step 'R: 200 rounds at the end of a turn' { go test -count=1 -timeout 20m ./tests/r -run TestInterrupt/at_the_end_of_a_turn }
    }
    Say "`n=== nothing is left"
    Start-Sleep -Seconds 2
    $left = @(Get-CimInstance Win32_Process | Where-Object { $_.CommandLine -and $_.CommandLine.Contains($scratch) -and $_.ProcessId -ne $PID })
    $left | ForEach-Object { Say "$($_.ProcessId) $($_.CommandLine)" }
    if ($left.Count -gt 0) { $failed.Add('nothing is left') }
    Say @'

Check by hand, and note the results:
- plot(1:10) in repl mcp with your client: does the picture appear?
- repl --lang r at a console: Ctrl-C at the prompt, while code runs, at readline(); arrow keys.
- tcltk::tk_messageBox(message = "x"): the window appears; does an interrupt end the wait?
- end repl.exe in the task manager while R runs a child: have both ended?
- AppLocker or an antivirus program that refuses turnstone.dll: what is the first reply?
'@
} finally {
    Pop-Location
    Remove-Item -Recurse -Force $scratch -ErrorAction SilentlyContinue
}
Say "`n$(if ($failed.Count) { "FAILED: $($failed -join '; ')" } else { 'all passed' })"
Say "report: $Report"
exit [int]($failed.Count -gt 0)
