from summarily.metrics.app import launch

launch("wms")
