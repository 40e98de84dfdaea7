# Install rules and the CMake package `stepcast`:
#
#   find_package(stepcast 0.1 CONFIG REQUIRED)
#   target_link_libraries(mine PRIVATE stepcast::schedule)
#
# Headers keep their folders under include/stepcast, so that #include "sim/schedule/schedule.hpp"
# reads the same here and there. Tested by tests/consumer, from an install tree.
#
# Components: `runtime` (the program, its examples and licences), `development` (headers, libraries,
# the CMake package) and, where MPI was found, `mpi` (the plugin).

include(CMakePackageConfigHelpers)

set(STEPCAST_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/stepcast)
get_property(libraries GLOBAL PROPERTY STEPCAST_LIBRARIES)
install(
  TARGETS ${libraries}
  EXPORT stepcastTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(
  EXPORT stepcastTargets
  NAMESPACE stepcast::
  DESTINATION ${STEPCAST_CMAKE_DIR}
  COMPONENT development)

foreach(folder IN LISTS STEPCAST_FOLDERS)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.hpp)
  list(FILTER headers EXCLUDE REGEX "/runtime/cuda/plugin/") # the plugin's own
  foreach(header IN LISTS headers)
    cmake_path(RELATIVE_PATH header BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE relative)
    cmake_path(GET relative PARENT_PATH directory)
    install(
      FILES ${header}
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepcast/${directory}
      COMPONENT development)
  endforeach()
endforeach()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/stepcastConfig.cmake.in ${PROJECT_BINARY_DIR}/stepcastConfig.cmake
  INSTALL_DESTINATION ${STEPCAST_CMAKE_DIR}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/stepcastConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES ${PROJECT_BINARY_DIR}/stepcastConfig.cmake ${PROJECT_BINARY_DIR}/stepcastConfigVersion.cmake
  DESTINATION ${STEPCAST_CMAKE_DIR}
  COMPONENT development)

install(TARGETS stepcast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
# The MPI plugin needs Open MPI's packages, the CUDA plugin needs nothing that is not found at run time.
if(TARGET stepcast_mpi)
  install(TARGETS stepcast_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/stepcast COMPONENT mpi)
endif()
if(TARGET stepcast_cuda)
  install(TARGETS stepcast_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/stepcast
                                        COMPONENT runtime)
endif()
install(
  FILES LICENSE THIRD_PARTY.md README.md CHANGELOG.md
  DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT runtime)
install(
  DIRECTORY docs examples
  DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT runtime)

# Manual pages and completion scripts, written by the program itself.
set(words ${PROJECT_BINARY_DIR}/words)
add_custom_command(
  OUTPUT ${words}/man/stepcast.1
  COMMAND stepcast man --output ${words}/man
  COMMAND stepcast completion bash > ${words}/stepcast
  COMMAND stepcast completion zsh > ${words}/_stepcast
  COMMAND stepcast completion fish > ${words}/stepcast.fish
  DEPENDS stepcast
  VERBATIM)
add_custom_target(words ALL DEPENDS ${words}/man/stepcast.1)
install(
  DIRECTORY ${words}/man/
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
  COMPONENT runtime)
install(
  FILES ${words}/stepcast
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  COMPONENT runtime)
install(
  FILES ${words}/_stepcast
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
  COMPONENT runtime)
install(
  FILES ${words}/stepcast.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
  COMPONENT runtime)
