"""Shell completion: the scripts for bash, zsh and fish, and the answers that they ask for.

The scripts ask ``geotrain __complete -- WORDS``, in the way that kubectl asks its plugins: a line
for each value, a tab before what it means, and at the end ``:4`` (these are all) or ``:0`` (files
may follow as well).
"""

import contextlib
import io
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from geotrain.cli import params


class Shell(StrEnum):
    """For which shell."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_ONLY: Final = ":4"
_FILES: Final = ":0"

_BASH: Final = r"""# geotrain: source <(geotrain completion bash)
_geotrain() {
  # The line itself, since bash takes --context=hub for three words.
  local line="${COMP_LINE:0:COMP_POINT}" answer files=1 begun
  local -a words values=()
  read -ra words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  while [[ ${words[0]} == *=* ]]; do words=("${words[@]:1}"); done
  local current="${words[${#words[@]}-1]}"
  while IFS= read -r answer; do
    case "$answer" in
      :4) files=0 ;;
      :*) ;;
      *) answer="${answer%%$'\t'*}"; [[ $answer == "$current"* ]] && values+=("$answer") ;;
    esac
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  if [[ $files == 1 ]]; then
    while IFS= read -r answer; do values+=("$answer"); done < <(compgen -f -- "$current")
    compopt -o filenames 2>/dev/null
  fi
  begun="${current%"${current##*=}"}"
  [[ $COMP_WORDBREAKS == *=* ]] || begun=""
  COMPREPLY=("${values[@]#"$begun"}")
  [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _geotrain geotrain
"""
_ZSH: Final = r"""#compdef geotrain
# geotrain: source <(geotrain completion zsh)
_geotrain() {
  local line files=1
  local -a values
  for line in "${(@f)$(geotrain __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case "$line" in
      :4) files=0 ;;
      :*|'') ;;
      *) values+=("${${line%%$'\t'*}//:/\\:}${${(M)line:#*$'\t'*}:+:${line#*$'\t'}}") ;;
    esac
  done
  (( ${#values} )) && _describe -t values value values
  (( files && ! ${#values} )) && _files
  return 0
}
if [[ "${funcstack[1]}" == "_geotrain" ]]; then
  _geotrain "$@"
else
  compdef _geotrain geotrain
fi
"""
_FISH: Final = r"""# geotrain: geotrain completion fish | source
function __geotrain_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l answer (geotrain __complete $words[2..-1] 2>/dev/null)
  set -l values (string match -v -r '^:\d+$' -- $answer)
  if test (count $values) -gt 0
    printf '%s\n' $values
  else if contains -- :0 $answer
    __fish_complete_path (commandline -ct)
  end
end
complete -c geotrain -f -a '(__geotrain_complete)'
"""
SCRIPTS: Final = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}


def completion(
    shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")],
) -> None:
    """Print the script by which a shell completes this command.

    For kubectl geo, kubectl's own completion asks kubectl_complete-geo, which is installed too.
    """
    typer.echo(SCRIPTS[shell], nl=False)


def answer(words: Sequence[str]) -> None:
    """Print what the last of ``words`` may become; silence where anything is wrong."""
    given = [*words[words[:1] == ["--"] :]] or [""]
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            found, files = candidates(given[:-1], given[-1])
        except Exception:
            found, files = [], False
    for value, meaning in found:
        typer.echo(f"{value}\t{meaning}" if meaning else value)
    typer.echo(_FILES if files else _ONLY)


def plugin() -> None:
    """``kubectl_complete-geo``: kubectl asks it for what may follow ``kubectl geo``."""
    answer(sys.argv[1:])


def candidates(before: Sequence[str], current: str) -> tuple[list[tuple[str, str]], bool]:
    """Values with their meaning for the word ``current``, and whether files are meant."""
    from geotrain.cli.main import COMMANDS, app

    root = typer.main.get_command(app)
    command, rest = _command(root, list(before))
    if hasattr(command, "list_commands") and not current.startswith("-"):
        context = command.make_context(command.name, [], resilient_parsing=True)
        names = command.list_commands(context)
        helps = {name: said for name, (_, said) in COMMANDS.items()} if command is root else {}
        return [(n, helps.get(n, "")) for n in names if n.startswith(current)], False
    param, value, option = _wanted(command, rest, current)
    if param is None:
        return _options(command, current), False
    context = command.make_context(command.name, list(rest), resilient_parsing=True)
    joined = f"{option}=" if option else ""
    found = [(f"{joined}{i.value}", i.help or "") for i in param.shell_complete(context, value)]
    return found, params.base(params.hints(command).get(param.name)) is Path


def _command(root: Any, words: list[str]) -> tuple[Any, list[str]]:
    """The command that the words name, and the words after its name."""
    command, context = root, root.make_context("geotrain", [], resilient_parsing=True)
    while hasattr(command, "list_commands"):
        while words and words[0].startswith("-"):
            words.pop(0)
        if not words:
            break
        inner = command.get_command(context, words.pop(0))
        if inner is None:
            raise LookupError("no such command")
        command = inner
    return command, words


def _wanted(command: Any, rest: Sequence[str], current: str) -> tuple[Any, str, str]:
    """The parameter whose value is being typed, its beginning, and ``--option`` before an =."""
    names = {name: each for each in command.params for name in getattr(each, "opts", ())}
    if current.startswith("--") and "=" in current:
        option, _, value = current.partition("=")
        return names.get(option), value, option
    if current.startswith("-"):
        return None, current, ""
    last = names.get(rest[-1]) if rest else None
    if last is not None and not getattr(last, "is_flag", False):
        return last, current, ""
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    done = _positional(rest, names)
    if not arguments:
        return None, current, ""
    if done < len(arguments):
        return arguments[done], current, ""
    return (arguments[-1] if arguments[-1].nargs < 0 else None), current, ""


def _positional(rest: Sequence[str], names: dict[str, Any]) -> int:
    """How many arguments were given already."""
    count, skip = 0, False
    for word in rest:
        if skip:
            skip = False
        elif word.startswith("-") and word != "-":
            each = names.get(word)
            skip = each is not None and not getattr(each, "is_flag", False)
        else:
            count += 1
    return count


def _options(command: Any, current: str) -> list[tuple[str, str]]:
    found = []
    for each in command.params:
        if each.param_type_name == "option":
            names = [*each.opts, *each.secondary_opts]
            said = (each.help or "").partition(". ")[0]
            found += [(n, said) for n in names if n.startswith("--") and n.startswith(current)]
    return [*found, *(("--help", "Show help"),)] if "--help".startswith(current) else found
