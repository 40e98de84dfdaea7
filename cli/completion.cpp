// stepcast completion: a completion script for a shell, written from the command line itself.
//
//   source <(stepcast completion bash)
//
// All three work alike: the words before the cursor name the command (`topo import`); after an
// option with fixed words these are offered, after another option files; a word that begins with a
// dash is an option; else verbs and files. Tested by tests/cli/shell_test.cpp, which asks the
// shells that are installed.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/outline.hpp"

namespace stepcast::cli {

namespace {

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string option_words(const CommandOutline& command) {
  std::vector<std::string> words;
  for (const OptionOutline& option : command.options) {
    if (!option.long_name.empty()) words.push_back("--" + option.long_name);
    if (!option.short_name.empty()) words.push_back("-" + option.short_name);
  }
  return joined(words);
}

// A text within single quotes of a POSIX shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// "' topo'|'topo import') command=...": a command by the one so far and the next word.
std::string follow(const std::vector<CommandOutline>& all) {
  std::string out;
  for (const CommandOutline& command : all) {
    if (command.path.empty()) continue;
    std::vector<std::string> above(command.path.begin(), command.path.end() - 1);
    out += fmt::format("      {}) command={} ;;\n",
                       quoted(joined(above) + ":" + command.path.back()), quoted(command.name()));
  }
  return out;
}

std::string bash(const std::vector<CommandOutline>& all) {
  std::string out =
      "# bash completion of stepcast, written by `stepcast completion bash`.\n"
      "_stepcast() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command='' i\n"
      "  local words='' verbs='' choices=''\n"
      "  # bash takes --option=value apart at the sign.\n"
      "  if [[ $cur == '=' ]]; then cur=''; elif [[ $prev == '=' ]]; then "
      "prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$command:${COMP_WORDS[i]}\" in\n" +
      follow(all) +
      "    esac\n"
      "  done\n"
      "  case $command in\n";
  for (const CommandOutline& command : all) {
    out += fmt::format("    {})\n      words={}\n      verbs={}\n      case $prev in\n",
                       quoted(command.name()), quoted(option_words(command)),
                       quoted(joined(command.verbs)));
    for (const OptionOutline& option : command.options) {
      if (option.value.empty() || option.optional_value || option.long_name.empty()) continue;
      out += fmt::format("        --{}) choices={} ;;\n", option.long_name,
                         quoted(option.choices.empty() ? "/" : joined(option.choices)));
    }
    out += "      esac ;;\n";
  }
  return out +
         "  esac\n"
         "  if [[ $choices == / ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "  elif [[ -n $choices ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$choices\" -- \"$cur\"; [[ $cur == */* || $cur "
         "== .* ]] && compgen -f -- \"$cur\")\n"
         "  elif [[ $cur == -* ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
         "  elif [[ -n $verbs ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$verbs\" -- \"$cur\")\n"
         "  else\n"
         "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _stepcast stepcast\n";
}

// "--strategy:data-parallel strategy" for _describe: colons in the option do not occur.
std::string described(const CommandOutline& command) {
  std::string out;
  for (const OptionOutline& option : command.options) {
    if (option.long_name.empty()) continue;
    std::string help = option.help;
    for (std::size_t at = 0; (at = help.find(':', at)) != std::string::npos; at += 2) {
      help.insert(at, "\\");
    }
    out += " " + quoted("--" + option.long_name + ":" + help);
  }
  return out;
}

std::string zsh(const std::vector<CommandOutline>& all) {
  std::string out =
      "#compdef stepcast\n"
      "# zsh completion of stepcast, written by `stepcast completion zsh`.\n"
      "_stepcast() {\n"
      "  local command='' word prev=${words[CURRENT-1]} cur=${words[CURRENT]}\n"
      "  local -a options verbs choices\n"
      "  for word in \"${(@)words[2,CURRENT-1]}\"; do\n"
      "    case \"$command:$word\" in\n" +
      follow(all) +
      "    esac\n"
      "  done\n"
      "  if [[ $cur == --*=* ]]; then prev=${cur%%=*}; compset -P '*='; cur=${cur#*=}; fi\n"
      "  case $command in\n";
  for (const CommandOutline& command : all) {
    out += fmt::format("    {})\n      options=({})\n      verbs=({})\n      case $prev in\n",
                       quoted(command.name()), described(command), joined(command.verbs));
    for (const OptionOutline& option : command.options) {
      if (option.value.empty() || option.optional_value || option.long_name.empty()) continue;
      if (option.choices.empty()) {
        out += fmt::format("        --{}) _files; return ;;\n", option.long_name);
      } else {
        out += fmt::format("        --{}) choices=({}) ;;\n", option.long_name,
                           joined(option.choices));
      }
    }
    out += "      esac ;;\n";
  }
  return out +
         "  esac\n"
         "  if (( $#choices )); then\n"
         "    compadd -- $choices\n"
         "    [[ $cur == */* || $cur == .* ]] && _files\n"
         "  elif [[ $cur == -* ]]; then\n"
         "    _describe option options\n"
         "  elif (( $#verbs )); then\n"
         "    compadd -- $verbs\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "if [[ $funcstack[1] == _stepcast ]]; then _stepcast \"$@\"; else compdef _stepcast "
         "stepcast; fi\n";
}

// A text within single quotes of fish, which knows \' and \\ there.
std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish(const std::vector<CommandOutline>& all) {
  std::string out =
      "# fish completion of stepcast, written by `stepcast completion fish`.\n"
      "function __stepcast_at\n"
      "  set -l command ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$command:$word\"\n";
  for (const CommandOutline& command : all) {
    if (command.path.empty()) continue;
    std::vector<std::string> above(command.path.begin(), command.path.end() - 1);
    out += fmt::format("      case {}\n        set command {}\n",
                       fish_quoted(joined(above) + ":" + command.path.back()),
                       fish_quoted(command.name()));
  }
  out +=
      "    end\n"
      "  end\n"
      "  test \"$command\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c stepcast -e\n";
  for (const CommandOutline& command : all) {
    const std::string at = fmt::format("complete -c stepcast -n {}",
                                       fish_quoted("__stepcast_at " + fish_quoted(command.name())));
    if (!command.verbs.empty()) {
      for (const CommandOutline& verb : all) {
        if (verb.path.size() != command.path.size() + 1) continue;
        if (!std::equal(command.path.begin(), command.path.end(), verb.path.begin())) continue;
        out += fmt::format("{} -f -a {} -d {}\n", at, verb.path.back(), fish_quoted(verb.summary));
      }
    }
    for (const OptionOutline& option : command.options) {
      out += at;
      if (!option.short_name.empty()) out += " -s " + option.short_name;
      if (!option.long_name.empty()) out += " -l " + option.long_name;
      if (!option.value.empty() && !option.optional_value) {
        out += option.choices.empty() ? " -r" : " -x -a " + fish_quoted(joined(option.choices));
      }
      out += " -d " + fish_quoted(option.help) + "\n";
    }
  }
  return out;
}

int go(const CLI::App& program, const std::string& shell) {
  const std::vector<CommandOutline> all = outline(program);
  if (shell == "bash") {
    print(bash(all));
  } else if (shell == "zsh") {
    print(zsh(all));
  } else if (shell == "fish") {
    print(fish(all));
  } else {
    throw not_accepted({.file = "shell", .line = 0, .key = ""}, shell, {"bash", "zsh", "fish"});
  }
  return 0;
}

Run add(CLI::App& command) {
  auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "bash, zsh or fish")->required()->option_text("SHELL");
  const CLI::App* program = command.get_parent();
  return [shell, program] { return go(*program, *shell); };
}

}  // namespace

const Command completion_command{"completion", "print a completion script for a shell",
                                 "  source <(stepcast completion bash)\n"
                                 "  stepcast completion zsh > ~/.zfunc/_stepcast\n"
                                 "  stepcast completion fish > "
                                 "~/.config/fish/completions/stepcast.fish",
                                 add};

}  // namespace stepcast::cli
