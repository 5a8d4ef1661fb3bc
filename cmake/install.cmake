# What `cmake --install` puts where, for users of the library; the command and the Lua module are
# installed by lua/, mooncage-init by engine/init/.
include(CMakePackageConfigHelpers)

install(TARGETS mooncage EXPORT mooncageTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/engine/include/mooncage
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

configure_file(${CMAKE_CURRENT_LIST_DIR}/mooncage.pc.in ${PROJECT_BINARY_DIR}/mooncage.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/mooncage.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/mooncage)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mooncageConfig.cmake.in
  ${PROJECT_BINARY_DIR}/mooncageConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_LIBEXECDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mooncageConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mooncageConfig.cmake
  ${PROJECT_BINARY_DIR}/mooncageConfigVersion.cmake DESTINATION ${package})
install(EXPORT mooncageTargets NAMESPACE mooncage:: DESTINATION ${package})

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(section 1 3)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/mooncage.${section}
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
# Offered, not enabled: see the profile's first lines.
install(FILES ${PROJECT_SOURCE_DIR}/deploy/apparmor/mooncage
  DESTINATION ${CMAKE_INSTALL_DATADIR}/mooncage/apparmor)
