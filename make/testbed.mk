# The test bed: programs, images and the three clusters. See e2e/testbed/bed.yaml.
TESTBED = PYTHONPATH=. $(PYTHON) -m e2e.testbed

programs: venv ## Build the Kubernetes programs into the cache (12 minutes once, then at once)
	@$(TESTBED) programs

dockerd: venv ## Start the docker daemon where none runs (needs root)
	@$(TESTBED) dockerd

images: venv ## Build geotrain's images where their inputs changed
	@$(TESTBED) images

clusters: ## Bring up the three clusters, or repair them (a minute once all is built)
	@$(PREFLIGHT) clusters
	@$(MAKE) --no-print-directory load-images

load-images: venv ## Make all that is missing, bring the clusters up, put geotrain's images into their nodes
	@$(TESTBED) ready

clusters-status: venv ## Show the clusters and what runs beside them
	@$(TESTBED) status

clusters-down: venv ## Remove the clusters; the cache stays
	@$(TESTBED) down

.PHONY: programs dockerd images clusters load-images clusters-status clusters-down
