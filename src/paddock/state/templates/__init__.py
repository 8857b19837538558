"""Templates: root file systems by name, made from images.

`store` keeps them. `_image_source` finds out what it was given: an OCI layout (`_oci`), an archive
of `docker save` (`_docker_save`), or a tar of a root file system. `_image_files` reads the files of
an image, `layer_archive` unpacks its layers with `_tar_stream` and `_decompression`, and
`_root_file_system` resolves the paths of the image without ever leaving it.
"""
