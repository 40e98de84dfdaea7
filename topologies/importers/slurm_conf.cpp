// Slurm's topology.conf, by its manual page: one declaration a line, keys in any case, a backslash
// at the end continues it, # begins a comment.
//
//   SwitchName=leaf1 Nodes=gpu[01-16]
//   SwitchName=spine Switches=leaf[1-4]          plugin tree
//   BlockName=b1 Nodes=gpu[01-18]
//   BlockSizes=18                                plugin block
//
// Tested by tests/unit/importers/fabric_test.cpp.

#include <fmt/format.h>

#include <algorithm>

#include "base/letters.hpp"
#include "topologies/importers/slurm_topology.hpp"

namespace stepcast::importing {

namespace {

// topology.conf's lines.
class ConfLines {
 public:
  ConfLines(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  std::vector<Declaration> declarations() const {
    std::vector<Declaration> out;
    std::string open;
    int line = 0, begun = 0;
    std::size_t from = 0;
    while (from < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', from), text_.size());
      std::string_view raw(text_.data() + from, end - from);
      from = end + 1;
      ++line;
      raw = raw.substr(0, raw.find('#'));
      while (!raw.empty() && static_cast<unsigned char>(raw.back()) <= ' ') raw.remove_suffix(1);
      if (open.empty()) begun = line;
      const bool more = !raw.empty() && raw.back() == '\\';
      if (more) raw.remove_suffix(1);
      open += std::string(raw) + " ";
      if (more) continue;
      Declaration each = parse(open, begun);
      if (!each.values.empty()) out.push_back(std::move(each));
      open.clear();
    }
    if (open.find_first_not_of(' ') != std::string::npos) out.push_back(parse(open, begun));
    return out;
  }

 private:
  Where at(int line, const std::string& key = {}) const { return {file_, line, key}; }

  // As Slurm reads it: blanks around the equals sign and quotes around the value do not count.
  static std::string plain(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '"') continue;
      while (text[i] == '=' && !out.empty() && static_cast<unsigned char>(out.back()) <= ' ') {
        out.pop_back();
      }
      out += text[i];
      if (text[i] != '=') continue;
      const std::size_t value = text.find_first_not_of(" \t", i + 1);
      const std::string_view word = std::string_view(text).substr(std::min(value, text.size()));
      const bool next_key = word.find('=') < word.find_first_of(" \t");
      if (value < text.size() && !next_key) i = value - 1;
    }
    return out;
  }

  Declaration parse(const std::string& written, int line) const {
    const std::string text = plain(written);
    Declaration out;
    out.line = line;
    std::size_t i = 0;
    while (true) {
      while (i < text.size() && static_cast<unsigned char>(text[i]) <= ' ') ++i;
      if (i == text.size()) return out;
      std::size_t end = i;
      while (end < text.size() && static_cast<unsigned char>(text[end]) > ' ') ++end;
      const std::string_view word(text.data() + i, end - i);
      i = end;
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos || equals == 0 || equals + 1 == word.size()) {
        throw InputError(at(line), fmt::format("'{}' is not accepted; accepted: KEY=VALUE, as "
                                               "SwitchName=leaf1 Nodes=gpu[01-16]",
                                               word.substr(0, 80)));
      }
      const std::string key = lower(word.substr(0, equals));
      if (out.first.empty()) out.first = key;
      if (!out.values.emplace(key, word.substr(equals + 1)).second) {
        throw InputError(at(line, key), "is there twice on this line");
      }
    }
  }

  const std::string& text_;
  const std::string& file_;
};

}  // namespace

bool is_slurm_conf(const std::string& text) {
  std::size_t from = 0;
  while (from < text.size()) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    const std::string line =
        lower(std::string_view(text).substr(from, std::min<std::size_t>(end - from, 64)));
    from = end + 1;
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string::npos || line[first] == '#') continue;
    for (const std::string_view start : {"switchname", "blockname", "blocksizes"}) {
      if (line.compare(first, start.size(), start) != 0) continue;
      const std::size_t behind = line.find_first_not_of(" \t", first + start.size());
      return behind != std::string::npos && line[behind] == '=';
    }
    return false;
  }
  return false;
}

std::vector<Declaration> slurm_conf_declarations(const std::string& text, const std::string& file) {
  return ConfLines(text, file).declarations();
}

}  // namespace stepcast::importing
