// `./dev kernels`: how well kernels are forecast, and the fit behind it.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/error.hpp"
#include "base/toml.hpp"
#include "validate/kernels/kernel_report.hpp"

int main(int argc, char** argv) {
  using namespace stepcast;
  CLI::App app{"Accuracy of the kernel models: shapes and GPUs left out, forecast, compared."};
  bool fit = false;
  std::string picture;
  app.add_flag("--fit", fit, "print sim/kernels/data/kernel-fits.toml, fitted to all shapes");
  app.add_option("--picture", picture, "write the errors as SVG to FILE");
  CLI11_PARSE(app, argc, argv);
  try {
    if (fit) {
      std::fputs(fitted_figures({}).c_str(), stdout);
      return 0;
    }
    const KernelAccuracy accuracy = kernel_accuracy(true);
    std::fputs(accuracy_text(accuracy).c_str(), stdout);
    if (!picture.empty()) write_file(picture, accuracy_picture(accuracy));
  } catch (const InputError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
