"""The names of files that the tools of a developer obey: each with the tool, as data.

Names are compared as the most generous file system compares them (see `fold`), so that a project on
a volume that ignores case is protected like any other. docs/files-of-a-run.md shows this list.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache

# Written only when they are named: whoever controls one of these runs programs on the host, or
# decides what the next agent may do.
PADDOCK_FILES = ("paddock.yaml", "paddock.yml", "*.paddock.yaml", "*.paddock.yml")
SCENARIO_FILES = ("*.scenario.yaml", "*.scenario.yml", "paddock_*.yaml", "paddock_*.yml",
                  "scenarios_*.py")  # fmt: skip
# Directories of version control whose settings name programs. Git has rules of its own.
REPOSITORY_DIRECTORIES = (".hg", ".jj", ".sl", ".svn", ".bzr", "_darcs", ".fslckout", "_fossil_")

LOGIN = "your login"
# Asked about: a directory means everything in it.
ASKED_DIRECTORIES = {
    "CI": (".github", ".gitlab", ".circleci", ".buildkite", ".forgejo", ".gitea", ".woodpecker",
           ".semaphore", ".teamcity", ".ci", ".builds", ".azure-pipelines", ".tekton", "zuul.d",
           ".zuul.d", ".dagger"),
    "an editor": (".vscode", ".idea", ".vs", ".fleet", ".zed", ".devcontainer", ".emacs.d", ".vim",
                  ".nvim", ".helix", ".theia", ".settings", "nbproject"),
    "an AI assistant": (".claude", ".cursor", ".codex", ".gemini", ".continue", ".windsurf",
                        ".aider", ".roo", ".opencode", ".amazonq", ".kiro", ".clinerules", ".goose",
                        ".junie", ".qwen", ".trae"),
    "git hooks": (".husky", ".githooks", ".lefthook", ".lefthook-local", ".git-hooks"),
    "a package manager": (".yarn", ".cargo", ".bundle", ".mvn", ".gradle", ".pnpm", "buildsrc"),
    "a task runner": (".mise", ".mise-tasks", ".direnv", ".devenv"),
    "a build tool": (".terraform",),
    "a JavaScript tool": (".storybook",),
    "Python": ("sitecustomize", "usercustomize", ".venv", "venv", ".ipython", ".jupyter"),
    LOGIN: (".ssh", ".gnupg", ".config", ".local"),
}  # fmt: skip
ASKED_FILES = {
    "CI": (".gitlab-ci.yml", ".gitlab-ci.yaml", "*.gitlab-ci.yml", ".travis.yml", "jenkinsfile*",
           "azure-pipelines*.y*ml", "bitbucket-pipelines.yml", ".drone.y*ml",
           ".drone.star", ".woodpecker.y*ml", "appveyor.yml", ".appveyor.yml", "cloudbuild.y*ml",
           "buildspec*.y*ml", ".cirrus.yml", ".cirrus.star", ".build.yml", "codemagic.yaml",
           "wercker.yml", "netlify.toml", "vercel.json", "render.yaml", "fly.toml",
           "zuul.y*ml", ".zuul.y*ml", "dagger.json"),
    "an editor": ("*.code-workspace", "*.sublime-project", "*.sublime-workspace", ".exrc", ".vimrc",
                  "_vimrc", ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el",
                  ".dir-locals-2.el", ".emacs", "*.iml", ".projectile",
                  ".devcontainer.json", ".gitpod.y*ml", ".replit", "replit.nix", ".project",
                  ".classpath", ".cproject", "project.pbxproj", "*.xcscheme", ".solargraph.yml",
                  ".luarc.json*"),
    "an AI assistant": (".mcp.json", "mcp.json", ".aider.conf.yml", ".cursorrules",
                        ".windsurfrules", "claude.md", "claude.local.md", "agents.md",
                        "agents.override.md", "gemini.md", ".claude.json", "opencode.json*",
                        ".goosehints", "crush.json", ".crush.json"),
    "a shell or direnv": (".envrc*", ".flaskenv", ".autoenv*",
                          ".bashrc", ".bash_*", ".bashenv",
                          ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
                          ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".xprofile",
                          ".xsessionrc", ".xsession", ".xinitrc", ".pam_environment"),
    "git": (".gitconfig", ".gitmodules", ".gitattributes", ".hgrc", ".hgsub", ".arcconfig"),
    "pre-commit": (".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml", "lefthook*.y*ml",
                   ".lefthook*.y*ml", "lefthook*.toml", "lefthook*.json", ".overcommit.yml",
                   ".huskyrc*", ".lintstagedrc*", "lint-staged.*", "captainhook.json",
                   "grumphp.y*ml*", "prek.toml"),
    "a package manager": (
        "package.json", "package.json5", "package.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml",
        ".pnpmfile.*", "pnpm-workspace.yaml", "bunfig.toml", "deno.json", "deno.jsonc", ".pnp.*",
        "lerna.json", "nx.json", "turbo.json", "rush.json", "composer.json", "cargo.toml",
        "build.rs", "gemfile", "*.gemspec", "gems.rb", "podfile", "*.podspec", "package.swift",
        "mix.exs", "rebar.config*", "*.cabal", "setup.hs", "project.clj", "deps.edn", "build.sbt",
        "go.work", "pubspec.yaml", "*.csproj", "*.fsproj", "*.vbproj", "*.vcxproj", "*.props",
        "*.targets", "nuget.config", "conanfile.*", "vcpkg.json", "binding.gyp",
        "makefile.pl", "build.pl", "cpanfile", "brewfile", "berksfile", "pixi.toml",
        "environment.y*ml", "*.rockspec", "*.nimble", "dub.json", "dub.sdl", "shard.yml",
        "*.sbt",
    ),
    "a build tool": (
        "makefile", "gnumakefile", "bsdmakefile", "makefile.*", "*.mk", "*.mak", "justfile",
        ".justfile", "*.just", "taskfile.y*ml", "taskfile.dist.y*ml", "mise.toml", ".mise.toml",
        "mise.*.toml", ".mise.*.toml", ".tool-versions", "rakefile*", "*.rake", "magefile.go",
        "sconstruct", "sconscript", "wscript", "dodo.py", "cmakelists.txt", "*.cmake",
        "cmakepresets.json", "cmakeuserpresets.json", "meson.build", "meson_options.txt",
        "build.ninja", "configure", "configure.ac", "configure.in", "autogen.sh",
        "workspace", "workspace.bazel", "module.bazel", "build", "build.bazel", "*.bzl", ".bazelrc",
        "buck", ".buckconfig", "pants.toml", "build.gradle*", "settings.gradle*", "init.gradle*",
        "gradlew*", "gradle.properties", "gradle-wrapper.*", "mvnw*", "pom.xml", "build.xml",
        "ivy.xml", "build.sc", "build.mill", "earthfile", "tiltfile", "procfile*", "vagrantfile",
        "dockerfile*", "*.dockerfile", "containerfile*", "docker-compose*.y*ml", "compose*.y*ml",
        "docker-bake.*", "skaffold.yaml", "flake.nix", "shell.nix", "default.nix", "devenv.*",
        "jakefile*", "gulpfile.*", "gruntfile.*", "cakefile", "build.zig", "dune", "dune-project",
        "*.gradle", "*.gradle.kts", "xmake.lua", "premake*.lua", ".bazeliskrc", "snakefile*",
        "nextflow.config", "guardfile", "capfile", "thorfile", "dangerfile", "fastfile",
        "steepfile", "lakefile.*", "terragrunt.hcl", ".tflint.hcl", "nakefile.nim",
        "config.nims", "phing.xml", "ansible.cfg",
    ),
    "a JavaScript tool": ("*.config.js", "*.config.cjs", "*.config.mjs", "*.config.ts",
                          "*.config.cts", "*.config.mts", ".*rc.js", ".*rc.cjs", ".*rc.mjs",
                          ".*rc.ts", ".babelrc*", ".eslintrc*", ".mocharc*", ".nycrc*",
                          ".swcrc", ".prettierrc*", ".stylelintrc*", "karma.conf.*",
                          "protractor.conf.*", "wdio.conf.*", "*.config.*.js", "*.config.*.ts",
                          ".postcssrc*", ".commitlintrc*", ".releaserc*", ".remarkrc*", ".parcelrc",
                          "angular.json", "cypress.json"),
    "a tool for Ruby or PHP": (".rubocop.y*ml", ".simplecov", ".byebugrc", ".php-cs-fixer*.php",
                               "phpunit.xml*", "phpstan.neon*", ".phpstan.neon*", "psalm.xml*",
                               "rector.php"),
    "Python": (
        "conftest.py", "sitecustomize.*", "usercustomize.*", "*.pth", "*._pth", "*.egg-link",
        "tasks.py", "locustfile.py", "gunicorn.conf.py", "celeryconfig.py", "pyvenv.cfg",
        "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "tox.toml", "noxfile.py",
        "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "fabfile.py",
        "pavement.py", "pipfile", "hatch.toml", "hatch_build.py", "pdm.toml", "poetry.toml",
        "uv.toml", ".coveragerc", "mypy.ini", ".mypy.ini",
        ".pylintrc", "pylintrc", ".flake8", ".pdbrc*", ".pythonrc*", "ipython_config.py",
        "jupyter_*config.*", "buildout.cfg",
    ),
    "a program that you start here": (".gdbinit", ".lldbinit", ".rprofile", ".renviron", ".irbrc",
                                      ".pryrc", ".rspec*", ".ghci", ".psqlrc", ".sqliterc",
                                      ".curlrc", ".wgetrc", ".screenrc", ".tmux.conf",
                                      ".netrc", ".my.cnf", ".perltidyrc", ".proverc",
                                      ".watchmanconfig",
                                      ".terraformrc", "*.desktop", "desktop.ini", "autorun.inf"),
}  # fmt: skip


@lru_cache(maxsize=65536)
def fold(name: str) -> str:
    """Return the name as the most generous file system would compare it.

    HFS+ ignores format characters and combines accents, NTFS and SMB ignore case, trailing dots,
    trailing spaces and what follows a colon, and know `.git` also by its short name.
    """
    text = unicodedata.normalize("NFKC", name.casefold()).casefold()
    text = "".join(char for char in text if not _is_ignorable(char))
    text = text.partition(":")[0].rstrip(" .")
    return ".git" if text.startswith("git~") and text[4:].isdecimal() else text


@cache
def pattern_of(*globs: str) -> re.Pattern[str]:
    """Return one pattern for several names in which `*` stands for any text, line breaks too."""
    return re.compile("|".join(re.escape(glob).replace(r"\*", ".*") for glob in globs), re.DOTALL)


@lru_cache(maxsize=65536)
def tool_of_file(name: str) -> str | None:
    """Return which tool obeys a file of this folded name."""
    for tool, globs in ASKED_FILES.items():
        if pattern_of(*globs).fullmatch(name):
            return tool
    return None


def tool_of_directory(name: str) -> str | None:
    """Return which tool obeys what lies in a directory of this folded name."""
    return _DIRECTORY_TOOLS.get(name)


_DIRECTORY_TOOLS = {name: tool for tool, names in ASKED_DIRECTORIES.items() for name in names}


def _is_ignorable(char: str) -> bool:
    """Format characters, and the variation selectors and fillers that Unicode calls ignorable."""
    if char.isascii():
        return False
    return (
        unicodedata.category(char) == "Cf"
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
        or char in "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u3164\uffa0"
    )
