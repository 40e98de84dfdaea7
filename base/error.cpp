#include "base/error.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

namespace stepcast {
namespace {

std::string located(const Where& where, std::string_view message) {
  std::string text;
  if (!where.file.empty()) {
    text += where.file;
    if (where.line > 0) text += ":" + std::to_string(where.line);
    text += ": ";
  }
  if (!where.key.empty()) text += where.key + ": ";
  text += message;
  // One line, whatever the value held.
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\r', ' ');
  return text;
}

// Letters in any case are the same.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

InputError::InputError(const Where& where, std::string_view message)
    : std::runtime_error(located(where, message)) {}
InputError::InputError(std::string_view message) : std::runtime_error(located({}, message)) {}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // At least so many letters differ; a key of megabytes is not worked out letter by letter.
    const std::size_t least =
        std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (least >= best_distance) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

InputError not_accepted(const Where& where, std::string_view value,
                        const std::vector<std::string>& accepted) {
  std::string message = "'" + std::string(value.substr(0, 80)) + "' is not accepted";
  const std::string near = nearest(value, accepted);
  if (!near.empty()) message += " (did you mean '" + near + "'?)";
  message += "; accepted: ";
  for (std::size_t i = 0; i < accepted.size(); ++i) message += (i ? ", " : "") + accepted[i];
  return InputError(where, message);
}

void assertion_failed(const char* expression, const char* file, int line,
                      const std::string& message) {
  throw std::logic_error(std::string("internal error: ") + message + " (" + expression + " at " +
                         file + ":" + std::to_string(line) + ")");
}

}  // namespace stepcast
