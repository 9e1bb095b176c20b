# SPDX-License-Identifier: BSD-3-Clause
# bash divides words at : and =, which NQNs and URLs are full of; the parser does not.
_nvmeof() {
  local line=$COMP_LINE word adjacent current i index=0
  local -a words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]} adjacent=
    ((i == 0)) || [[ -z $word || $line == [[:space:]]* ]] || adjacent=yes
    [[ -z $word ]] || line=${line#*"$word"}
    if [[ $adjacent && $word == = && ${words[index]} == --* && ${words[index]} != *[:=]* ]]; then
      words+=("") # --option=value is --option value
    elif [[ $adjacent ]]; then
      words[index]+=$word
    else
      words+=("$word")
    fi
    index=$((${#words[@]} - 1))
  done
  current=${words[index]}
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$index
  _shtab_nvmeof
  # What stands before the last colon is there already, for bash.
  if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${current%:*}:"}")
  fi
}

complete -o bashdefault -F _nvmeof nvmeof
