"""Templates: root file systems by name, made from images.

`store` keeps them. `image_source` finds out what it was given: an OCI layout (`oci`), an archive of
`docker save` (`docker_save`), or a tar of a root file system. `image_files` reads the files of an
image, `layer_archive` unpacks its layers with `tar_stream` and `decompression`, and
`root_file_system` resolves the paths of the image without ever leaving it.
"""
