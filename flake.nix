{
  description = "Keeps R and Python REPLs alive for coding agents, programs and people";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "aarch64-darwin"
      ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.buildGo126Module {
          pname = "turnstone-repl";
          version = "0.1.0";
          src = self;
          vendorHash = "sha256-WZajF9j6fxOJ4jwQXm6zlgoahegga6r3H+PdJ0XEvvY="; # a test in release/ prints it after a change of go.mod
          subPackages = [ "cmd/repl" ];
          env.CGO_ENABLED = 0;
          ldflags = [
            "-s"
            "-w"
          ];
          doCheck = false; # the tests start interpreters, sandboxes and terminals
          meta = {
            description = "Keeps R and Python REPLs alive for coding agents, programs and people";
            homepage = "https://github.com/turnstone-repl/turnstone";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "repl";
          };
        };
      });
    };
}
