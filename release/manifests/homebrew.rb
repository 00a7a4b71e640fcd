class TurnstoneRepl < Formula
  desc "{{.Summary}}"
  homepage "{{.Homepage}}"
  version "{{.Version}}"
  license "{{.License}}"

  on_macos do
    on_arm do
      url "{{.Archives.darwin_arm64.URL}}"
      sha256 "{{.Archives.darwin_arm64.SHA256}}"
    end
    on_intel do
      url "{{.Archives.darwin_amd64.URL}}"
      sha256 "{{.Archives.darwin_amd64.SHA256}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.Archives.linux_arm64.URL}}"
      sha256 "{{.Archives.linux_arm64.SHA256}}"
    end
    on_intel do
      url "{{.Archives.linux_amd64.URL}}"
      sha256 "{{.Archives.linux_amd64.SHA256}}"
    end
  end

  def install
    bin.install "repl"
    man1.install "repl.1"
    bash_completion.install "completion/repl.bash" => "repl"
    zsh_completion.install "completion/_repl"
    fish_completion.install "completion/repl.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/repl version")
  end
end
