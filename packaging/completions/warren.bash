# bash completion for warren; made by `warren completions`
_warren_subcommands() {
  case "$1" in
    'warren') echo 'init agents fs kv timeline tools info quota sql backup restore fsck migrate completions man version help' ;;
    'warren fs') echo 'ls tree cat stat readlink find du write append cp mv rm mkdir rmdir ln chmod touch put get' ;;
    'warren kv') echo 'get set del list' ;;
    'warren tools') echo 'record start succeed fail get stats' ;;
    'warren completions') echo 'bash zsh fish install uninstall show' ;;
  esac
}
_warren_options() {
  case "$1" in
    'warren') echo '--directory -C --version -V' ;;
    'warren init') echo '--force -f --base --chunk-size --json' ;;
    'warren agents') echo '--json' ;;
    'warren fs ls') echo '--long -l --all -a --recursive -R --json' ;;
    'warren fs tree') echo '--depth -d --json' ;;
    'warren fs stat') echo '--follow -L --json' ;;
    'warren fs readlink') echo '--json' ;;
    'warren fs find') echo '--name -n --type -t --min-size --max-size --newer --depth -d --null -0 --json' ;;
    'warren fs du') echo '--summary -s --human -H --json' ;;
    'warren fs cp') echo '--recursive -r' ;;
    'warren fs mv') echo '--no-clobber -n --exchange' ;;
    'warren fs rm') echo '--recursive -r --force -f' ;;
    'warren fs mkdir') echo '--parents -p --mode -m' ;;
    'warren fs ln') echo '--symbolic -s --force -f' ;;
    'warren fs chmod') echo '--recursive -R' ;;
    'warren fs touch') echo '--no-create -c --time -d' ;;
    'warren fs put') echo '--verbose -v --json' ;;
    'warren fs get') echo '--force -f --verbose -v --json' ;;
    'warren kv get') echo '--string -s --json' ;;
    'warren kv set') echo '--string -s --ttl --if-value --if-absent' ;;
    'warren kv del') echo '--force -f' ;;
    'warren kv list') echo '--prefix -p --after --limit -n --keys -k --json' ;;
    'warren timeline') echo '--limit --filter --status --format --since --json' ;;
    'warren tools record') echo '--params --result --error --started --completed --session --parent --json' ;;
    'warren tools start') echo '--params --session --parent --json' ;;
    'warren tools succeed') echo '--result' ;;
    'warren tools get') echo '--json' ;;
    'warren tools stats') echo '--json' ;;
    'warren info') echo '--json' ;;
    'warren quota') echo '--bytes --inodes --json' ;;
    'warren sql') echo '--write -w --format --json' ;;
    'warren backup') echo '--json' ;;
    'warren restore') echo '--force -f --json' ;;
    'warren fsck') echo '--repair --json' ;;
    'warren migrate') echo '--dry-run -n --json' ;;
    'warren version') echo '--json' ;;
  esac
}
_warren_value_options() {
  case "$1" in
    'warren') echo '--directory -C' ;;
    'warren init') echo '--base --chunk-size' ;;
    'warren fs tree') echo '--depth -d' ;;
    'warren fs find') echo '--name -n --type -t --min-size --max-size --newer --depth -d' ;;
    'warren fs mkdir') echo '--mode -m' ;;
    'warren fs touch') echo '--time -d' ;;
    'warren kv set') echo '--ttl --if-value' ;;
    'warren kv list') echo '--prefix -p --after --limit -n' ;;
    'warren timeline') echo '--limit --filter --status --format --since' ;;
    'warren tools record') echo '--params --result --error --started --completed --session --parent' ;;
    'warren tools start') echo '--params --session --parent' ;;
    'warren tools succeed') echo '--result' ;;
    'warren quota') echo '--bytes --inodes' ;;
    'warren sql') echo '--format' ;;
  esac
}
_warren_needed() {
  case "$1" in
    'warren') echo '0' ;;
    'warren fs') echo '1' ;;
    'warren kv') echo '1' ;;
    'warren tools') echo '1' ;;
    'warren completions') echo '0' ;;
    *) echo 999 ;;
  esac
}
_warren_source() {
  case "$1" in
    'warren --directory') echo 'dirs' ;;
    'warren -C') echo 'dirs' ;;
    'warren init --base') echo 'dirs' ;;
    'warren fs 0') echo 'agents' ;;
    'warren fs find --type') echo 'words f d l p s c b' ;;
    'warren fs find -t') echo 'words f d l p s c b' ;;
    'warren fs put 0') echo 'files' ;;
    'warren fs get 1') echo 'files' ;;
    'warren kv 0') echo 'agents' ;;
    'warren timeline --status') echo 'words pending success error' ;;
    'warren timeline --format') echo 'words table json' ;;
    'warren timeline 0') echo 'agents' ;;
    'warren tools 0') echo 'agents' ;;
    'warren info 0') echo 'agents' ;;
    'warren quota 0') echo 'agents' ;;
    'warren sql --format') echo 'words table json csv' ;;
    'warren sql 0') echo 'agents' ;;
    'warren backup 0') echo 'agents' ;;
    'warren backup 1') echo 'files' ;;
    'warren restore 0') echo 'agents' ;;
    'warren restore 1') echo 'files' ;;
    'warren fsck 0') echo 'agents' ;;
    'warren migrate 0') echo 'agents' ;;
    'warren completions install 0') echo 'words bash zsh fish' ;;
    'warren completions uninstall 0') echo 'words bash zsh fish' ;;
  esac
}
# From the words before the cursor to the place: sets place, index (of the next positional), and option
# (when its value comes next).
_warren_walk() {
  place=warren index=0 option=
  local word needed over=
  for word in "$@"; do
    if [ -n "$option" ]; then option=; continue; fi
    if [ -z "$over" ]; then
      case "$word" in
        --) over=1; continue ;;
        --*=*) continue ;;
        -?*)
          case " $(_warren_value_options "$place") $(_warren_value_options warren) " in
            *" $word "*) option=$word ;;
          esac
          continue ;;
      esac
    fi
    needed=$(_warren_needed "$place")
    if [ "$index" -ge "$needed" ]; then place="$place $word"; index=0; else index=$((index + 1)); fi
  done
}
_warren_agents() {
  ls .agentfs 2>/dev/null | while IFS= read -r file; do
    case "$file" in
      *.index.db) ;;
      *.db) echo "${file%.db}" ;;
    esac
  done
}
_warren() {
  local place index option source cur=${COMP_WORDS[COMP_CWORD]}
  local -a before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")
  _warren_walk "${before[@]}"
  COMPREPLY=()
  if [ -n "$option" ]; then
    source=$(_warren_source "$place $option")
    [ -n "$source" ] || source=$(_warren_source "warren $option")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(_warren_options "$place") $(_warren_options warren) --help" -- "$cur")
    return
  elif [ "$index" -ge "$(_warren_needed "$place")" ]; then
    source="words $(_warren_subcommands "$place")"
  else
    source=$(_warren_source "$place $index")
  fi
  case "$source" in
    words*) mapfile -t COMPREPLY < <(compgen -W "${source#words }" -- "$cur") ;;
    agents) mapfile -t COMPREPLY < <(compgen -W "$(_warren_agents)" -- "$cur"; compgen -f -- "$cur") ;;
    files) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    dirs) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
  esac
}
complete -o filenames -F _warren warren
