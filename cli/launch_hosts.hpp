#pragma once
// The hosts of `stepcast launch --hosts`: mpirun and ssh say of a wrong one neither the flag nor,
// at times, the name.

#include <string>

namespace stepcast::cli {

// NAME or NAME:SLOTS, with slots for all ranks. Throws InputError.
void check_hosts(const std::string& list, int ranks);

// Every name leads somewhere: an address, a name that resolves, or one that ssh is configured to
// take for such. Throws InputError that names the host.
void check_hosts_are_known(const std::string& list);

// Whether a name has its domain with it, which mpirun would cut off.
bool names_domains(const std::string& list);

}  // namespace stepcast::cli
