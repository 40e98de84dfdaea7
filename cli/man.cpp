// stepcast man: manual pages in roff, written from the command line itself: stepcast(1) and a page
// a command. They are installed into share/man/man1. Tested by tests/cli/shell_test.cpp.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "base/version.hpp"
#include "cli/command.hpp"
#include "cli/outline.hpp"

namespace stepcast::cli {

namespace {

// What roff would read as its own: backslashes, and a dot or quote that begins a line. A dash is
// written \- so that it is one to copy.
std::string roff(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins = i == 0 || text[i - 1] == '\n';
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_name(const CommandOutline& command) {
  std::string name = "stepcast";
  for (const std::string& word : command.path) name += "-" + word;
  return name;
}

std::string option_head(const OptionOutline& option) {
  std::string names;
  if (!option.short_name.empty()) names += "\\fB\\-" + roff(option.short_name) + "\\fR";
  if (!option.long_name.empty()) {
    names += (names.empty() ? "" : ", ") + ("\\fB\\-\\-" + roff(option.long_name)) + "\\fR";
  }
  if (!option.value.empty()) {
    names += option.optional_value ? " [\\fI" + roff(option.value) + "\\fR]"
                                   : " \\fI" + roff(option.value) + "\\fR";
  }
  return names;
}

void add_options(std::string& out, const CommandOutline& command) {
  std::vector<std::string> groups;
  for (const OptionOutline& option : command.options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  for (const std::string& group : groups) {
    if (group.empty()) continue;  // hidden
    out += groups.size() > 1 ? ".SS " + roff(group) + "\n" : "";
    for (const OptionOutline& option : command.options) {
      if (option.group != group) continue;
      out += ".TP\n" + option_head(option) + "\n" + roff(option.help) + "\n";
    }
  }
}

void add_usage(std::string& out, const CommandOutline& command) {
  out += "\\fBstepcast" + (command.path.empty() ? "" : " " + roff(command.name())) + "\\fR";
  if (!command.options.empty()) out += " [\\fIOPTIONS\\fR]";
  for (const std::string& positional : command.positionals) {
    out += " \\fI" + roff(positional.substr(positional.find(' ') + 1)) + "\\fR";
  }
  if (!command.verbs.empty()) out += " \\fICOMMAND\\fR";
  out += "\n";
}

void add_positionals(std::string& out, const CommandOutline& command) {
  for (std::size_t i = 0; i < command.positionals.size(); ++i) {
    const std::string& positional = command.positionals[i];
    out += ".TP\n\\fI" + roff(positional.substr(positional.find(' ') + 1)) + "\\fR\n" +
           roff(command.positional_help[i]) + "\n";
  }
}

void add_examples(std::string& out, const CommandOutline& command) {
  if (command.footer.empty()) return;
  std::string text = command.footer;
  const std::string head = "Example:\n";
  if (text.starts_with(head)) text = text.substr(head.size());
  out += ".SH EXAMPLES\n.nf\n" + roff(text) + "\n.fi\n";
}

std::string head(const CommandOutline& command) {
  const std::string name = page_name(command);
  return fmt::format(".TH {} 1 \"\" \"stepcast {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                     roff(name), version(), roff(name), roff(command.summary));
}

std::string program_page(const std::vector<CommandOutline>& all) {
  const CommandOutline& program = all.front();
  std::string out = head(program) + ".SH SYNOPSIS\n";
  add_usage(out, program);
  out += ".SH COMMANDS\n";
  for (const CommandOutline& command : all) {
    if (command.path.size() != 1) continue;
    out += ".TP\n\\fB" + roff(page_name(command)) + "\\fR(1)\n" + roff(command.summary) + "\n";
  }
  out += ".SH OPTIONS\n";
  add_options(out, program);
  out +=
      ".SH EXIT STATUS\n.TP\n0\ndone\n.TP\n1\na fault of stepcast's own\n.TP\n2\nbad input: one "
      "line says what and where\n.TP\n3\nthe step does not fit in memory\n";
  add_examples(out, program);
  return out;
}

// A command, and its verbs on the same page.
std::string command_page(const std::vector<CommandOutline>& all, const std::string& name) {
  std::string out;
  for (const CommandOutline& command : all) {
    if (command.path.empty() || command.path.front() != name) continue;
    if (command.path.size() == 1) {
      out = head(command) + ".SH SYNOPSIS\n";
      for (const CommandOutline& each : all) {
        const bool leaf = each.verbs.empty();
        if (each.path.empty() || each.path.front() != name || !leaf) continue;
        if (!out.ends_with(".SH SYNOPSIS\n")) out += ".br\n";
        add_usage(out, each);
      }
      out += ".SH OPTIONS\n";
    } else {
      out += ".SH " + roff(command.name()) + "\n" + roff(command.summary) + "\n";
    }
    add_positionals(out, command);
    add_options(out, command);
  }
  for (const CommandOutline& command : all) {
    if (command.name() == name) add_examples(out, command);
  }
  return out + ".SH SEE ALSO\n\\fBstepcast\\fR(1)\n";
}

int go(const CLI::App& program, const std::string& name, const std::string& folder) {
  const std::vector<CommandOutline> all = outline(program);
  const std::vector<std::string>& names = all.front().verbs;
  const bool known = std::find(names.begin(), names.end(), name) != names.end();
  if (!name.empty() && !known) {
    throw not_accepted({.file = "command", .line = 0, .key = ""}, name, names);
  }
  if (folder.empty()) {
    print(name.empty() ? program_page(all) : command_page(all, name));
    return 0;
  }
  if (known) {
    throw InputError({.file = "--output", .line = 0, .key = ""},
                     "writes all pages; accepted: without the name of a command");
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw InputError({.file = "--output", .line = 0, .key = ""},
                     fmt::format("'{}' is no folder that can be written; accepted: a folder",
                                 folder.substr(0, 200)));
  }
  write_file(folder + "/stepcast.1", program_page(all));
  for (const std::string& each : names) {
    write_file(fmt::format("{}/stepcast-{}.1", folder, each), command_page(all, each));
  }
  return 0;
}

Run add(CLI::App& command) {
  auto name = std::make_shared<std::string>();
  auto folder = std::make_shared<std::string>();
  command.add_option("command", *name, "the command whose page is printed (default: stepcast's)")
      ->option_text("COMMAND");
  command.add_option("-o,--output", *folder, "write all pages into this folder instead")
      ->option_text("FOLDER");
  const CLI::App* program = command.get_parent();
  return [name, folder, program] { return go(*program, *name, *folder); };
}

}  // namespace

const Command man_command{"man", "print manual pages in roff",
                          "  stepcast man simulate | man -l -\n"
                          "  stepcast man --output ~/.local/share/man/man1",
                          add};

}  // namespace stepcast::cli
