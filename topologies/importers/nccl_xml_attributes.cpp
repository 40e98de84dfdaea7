#include "topologies/importers/nccl_xml_attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace stepcast::importing {

int XmlAttributes::line_of(std::ptrdiff_t offset) const {
  const auto end = text_.begin() +
                   std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size()));
  return 1 + static_cast<int>(std::count(text_.begin(), end, '\n'));
}

InputError XmlAttributes::error(const pugi::xml_node& node, std::string_view key,
                                const std::string& message) const {
  const std::string name = node.name();
  return InputError(
      {path_, line_of(node.offset_debug()), key.empty() ? name : fmt::format("{}.{}", name, key)},
      message);
}

double XmlAttributes::number(const pugi::xml_node& node, const char* key, double fallback,
                             double least, double most) const {
  const char* text = node.attribute(key).value();
  if (*text == '\0') return fallback;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end != '\0' || !std::isfinite(value) || value < least || value > most) {
    throw error(node, key, fmt::format("\"{}\" is not a number from {} to {}", text, least, most));
  }
  return value;
}

int XmlAttributes::integer(const pugi::xml_node& node, const char* key, int fallback, int least,
                           int most) const {
  const double value = number(node, key, fallback, least, most);
  if (value != std::floor(value)) throw error(node, key, "accepted: a whole number");
  return static_cast<int>(value);
}

int XmlAttributes::lanes(const pugi::xml_node& pci) const {
  const int said = integer(pci, "link_width", 0, 0, 255);
  constexpr int not_known = 255;  // of Linux; with it goes an unknown speed, which is said
  return said > 0 && said != not_known ? said : 16;
}

unsigned pci_class(const pugi::xml_node& pci) {
  return static_cast<unsigned>(std::strtoul(pci.attribute("class").value(), nullptr, 16) >> 8) &
         0xffff;
}

unsigned device_id(const pugi::xml_node& pci) {
  return static_cast<unsigned>(std::strtoul(pci.attribute("device").value(), nullptr, 16) & 0xffff);
}

int pcie_generation(const pugi::xml_node& pci) {
  const double speed = std::strtod(pci.attribute("link_speed").value(), nullptr);
  constexpr double gt_per_s[] = {2.5, 5, 8, 16, 32, 64};
  for (int g = 0; g < 6; ++g) {
    if (speed == gt_per_s[g]) return g + 1;
  }
  return 0;
}

int broadcom_generation(const pugi::xml_node& pci, std::uint64_t level) {
  const auto part = [&](const char* key) {
    return std::strtoull(pci.attribute(key).value(), nullptr, 16) & 0xffff;
  };
  const std::uint64_t id = part("vendor") << 48 | part("device") << 32 |
                           part("subsystem_vendor") << 16 | (part("subsystem_device") & 0xf000);
  if (id == (0x1000c0101000a000 | level << 12)) return 4;
  if (id == (0x1000c03010000000 | level << 12)) return 5;
  return 0;
}

std::uint64_t port_guid(const pugi::xml_node& net, std::size_t number) {
  if (!net.attribute("guid")) return (std::uint64_t{1} << 62) + number;
  const std::uint64_t value = std::strtoull(net.attribute("guid").value(), nullptr, 0);
  return value != 0 ? value : std::uint64_t{1} << 61;
}

}  // namespace stepcast::importing
