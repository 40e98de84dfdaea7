# ./dev package: dist/stepcast_VERSION_ARCH.deb (the program), dist/stepcast-dev_VERSION_ARCH.deb
# (headers and libraries), dist/stepcast-mpi_VERSION_ARCH.deb (the MPI plugin, where MPI was found)
# and dist/stepcast-VERSION-Linux-ARCH.tar.gz (all of it).
# The shared libraries that the .deb depends on are read from the binary by dpkg-shlibdeps.
# Tested by tests/package/clean_machine.sh on a bare Debian 12.

set(CPACK_PACKAGE_NAME stepcast)
set(CPACK_PACKAGE_VENDOR "stepcast authors")
set(CPACK_PACKAGE_CONTACT "stepcast authors <stepcast@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "forecasts a data-parallel training step")
set(CPACK_PACKAGE_DESCRIPTION
    "stepcast forecasts the time, traffic and memory of one data-parallel training step\n\
(DDP, FSDP2, HSDP) of a language model on a GPU cluster, without a GPU.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_FILE_NAME
    stepcast-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_COMPONENTS_ALL runtime development)
if(TARGET stepcast_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME stepcast-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "stepcast (= ${PROJECT_VERSION}), openmpi-bin")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "runs stepcast's ranks as processes, over Open MPI")
endif()
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF) # one tarball

set(CPACK_DEB_COMPONENT_INSTALL ON) # a .deb each
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME stepcast)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME stepcast-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF) # static libraries only
string(
  JOIN
  ", "
  CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  libsimgrid-dev
  libboost-graph-dev
  libspdlog-dev
  libfmt-dev
  libtomlplusplus-dev
  libyaml-cpp-dev
  libcli11-dev
  nlohmann-json3-dev
  libpugixml-dev
  zlib1g-dev
  libsqlite3-dev
  libnlopt-cxx-dev
  pkg-config)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "headers, static libraries and the CMake package of stepcast")

include(CPack)
