"""The networks that come with edge-infer, one folder each; packed into the wheel as edge_infer.bundled."""
