from summarily.metrics.app import launch

launch("s_wms")
