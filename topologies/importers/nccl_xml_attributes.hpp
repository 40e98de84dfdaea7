#pragma once
// Attributes of NCCL's topology files: numbers that are refused by line and name, and what the
// PCI ones mean. For nccl_xml.cpp. Tested by tests/unit/importers.

#include <cstddef>
#include <cstdint>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace stepcast::importing {

// Of one file. Both strings are the caller's.
class XmlAttributes {
 public:
  XmlAttributes(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  int line_of(std::ptrdiff_t offset) const;
  // At the node, or at its attribute `key` if that is not empty.
  InputError error(const pugi::xml_node& node, std::string_view key,
                   const std::string& message) const;

  // `fallback` where the attribute is missing or empty. Throws InputError outside least..most.
  double number(const pugi::xml_node& node, const char* key, double fallback, double least,
                double most) const;
  int integer(const pugi::xml_node& node, const char* key, int fallback, int least, int most) const;
  // link_width: 0 and Linux's 255 for "unknown" mean 16.
  int lanes(const pugi::xml_node& pci) const;

 private:
  const std::string& path_;
  const std::string& text_;
};

// Top byte and the next of a PCI class: 0x0302 for "0x030200"; 0 where there is none.
unsigned pci_class(const pugi::xml_node& pci);
unsigned device_id(const pugi::xml_node& pci);

// Of "16.0 GT/s PCIe", "8 GT/s"; 0 where the speed is none of PCIe's.
int pcie_generation(const pugi::xml_node& pci);

// Broadcom PEX switches show two levels although every port has the full rate: they are one. The
// generation where the device is such a switch's level (0: upper, 1: lower), else 0.
int broadcom_generation(const pugi::xml_node& pci, std::uint64_t level);

// Ports of equal guid share an ASIC; NCCL takes those that say 0 for one, too. A port without one
// gets its own, by its number.
std::uint64_t port_guid(const pugi::xml_node& net, std::size_t number);

}  // namespace stepcast::importing
