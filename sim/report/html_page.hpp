#pragma once
// The report page: one HTML file that opens offline, made of the bundle of page/ (built with Vite,
// embedded in the library) and a document of JSON that it draws. docs/page.md lists the documents.
//
//   write_report("step.html", "simulate", json);
//
// The JSON stands in the page as data, not as a script: it is written so that nothing in it can end
// its element ("<" becomes \u003c, and so U+2028 and U+2029). What the page shows of it goes
// through the DOM as text. A large one (10,000 points of a sweep) is compressed. A content security
// policy in the page lets no other script run and nothing be loaded. Tested by
// tests/unit/report/html_page_test.cpp and, in a browser, tests/page.

#include <string>
#include <string_view>

namespace stepcast {

// False where the program was built without npm: then there is no page.
bool html_page_available();

// What a command does with `--report FILE` before it works: throws InputError that names the flag
// where there is no page, with how to get one, and where the file could not be written.
void check_report(std::string_view flag, const std::string& file);

// The page with a document of this kind: "simulate", "sweep", "plan", "validate", "published",
// "explain", "compare", "serve". `json` is an object as text; it stands as the page's "document"
// beside the program's version. Throws InputError where there is no page.
std::string html_page(std::string_view kind, std::string_view json);

// Writes it, beside and renamed (write_file).
void write_report(const std::string& file, std::string_view kind, std::string_view json);

// JSON as it may stand within <script type="application/json">.
std::string json_in_html(std::string_view json);

}  // namespace stepcast
