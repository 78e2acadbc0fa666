# What `cmake --install` puts where: headers, libraries, pkg-config files, the CMake package, man pages. Programs are
# installed by their own folders. Everything is relative to the prefix, so that --prefix at install time works.
include(CMakePackageConfigHelpers)

set(LAKE_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/lakestream)
set(LAKE_PKGCONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH LAKE_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH LAKE_PC_LIBDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH LAKE_PC_INCLUDEDIR ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})

set(generated ${CMAKE_BINARY_DIR}/package)
configure_file(cmake/lakestream.pc.in ${generated}/lakestream.pc @ONLY)
configure_package_config_file(cmake/lakestream-config.cmake.in ${generated}/lakestream-config.cmake
  INSTALL_DESTINATION ${LAKE_PACKAGE_DIR} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${generated}/lakestream-config-version.cmake COMPATIBILITY SameMinorVersion)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/lakestream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "mpi.h" EXCLUDE)
install(TARGETS lakestream EXPORT lakestream LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lakestream NAMESPACE lakestream:: DESTINATION ${LAKE_PACKAGE_DIR} FILE lakestream-targets.cmake)
# Not exported: its requirements in this tree are not those of an installed archive, which the package file lists.
install(TARGETS lakestream_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Errors and man pages name it.
install(FILES ${PROJECT_SOURCE_DIR}/docs/STORES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${generated}/lakestream.pc DESTINATION ${LAKE_PKGCONFIG_DIR})
install(FILES ${generated}/lakestream-config.cmake ${generated}/lakestream-config-version.cmake
  DESTINATION ${LAKE_PACKAGE_DIR})

if(LAKE_MPI)
  configure_file(cmake/lakestream-mpi.pc.in ${generated}/lakestream-mpi.pc @ONLY)
  # Its liblakestream.so.0 lies beside it, also under a prefix that the loader does not search.
  set_target_properties(lakestream_mpi PROPERTIES EXPORT_NAME mpi INSTALL_RPATH "$ORIGIN")
  install(FILES ${PROJECT_SOURCE_DIR}/include/lakestream/mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/lakestream)
  install(EXPORT lakestream_mpi NAMESPACE lakestream:: DESTINATION ${LAKE_PACKAGE_DIR}
    FILE lakestream-mpi-targets.cmake)
  install(FILES ${generated}/lakestream-mpi.pc DESTINATION ${LAKE_PKGCONFIG_DIR})
endif()
