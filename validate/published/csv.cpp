#include "base/error.hpp"
#include "validate/published/rows.hpp"

namespace stepcast {

std::vector<std::vector<std::string>> parse_csv(std::string_view text, const std::string& file) {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> cells(1);
  bool quoted = false;
  const auto end_line = [&] {
    if (!cells.back().empty() && cells.back().back() == '\r') cells.back().pop_back();
    lines.push_back(std::move(cells));
    cells.assign(1, "");
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"') {
        cells.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        cells.back() += text[++i];
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      cells.emplace_back();
    } else if (c == '\n') {
      end_line();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) {
    throw InputError({file, static_cast<int>(lines.size()) + 1, ""},
                     "a quote is not closed; accepted: \"...\" with inner quotes doubled");
  }
  if (cells.size() > 1 || !cells.back().empty()) end_line();
  return lines;
}

}  // namespace stepcast
